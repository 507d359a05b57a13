"""How fast requests come: so many at once, by a clock, or in steps of either."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from myserve_ui.errors import InvalidRequestError

MAX_CONCURRENCY, MAX_RATE, MAX_STEPS = 1024, 10_000.0, 64


@dataclass(frozen=True, slots=True)
class ClosedLoop:
    """So many at once: a new request goes out when one comes back."""

    concurrency: int

    def __post_init__(self) -> None:
        if not 1 <= self.concurrency <= MAX_CONCURRENCY:
            raise InvalidRequestError(
                f"concurrency must be in [1, {MAX_CONCURRENCY}], got {self.concurrency}.", param="concurrency"
            )


@dataclass(frozen=True, slots=True)
class OpenLoop:
    """Arrivals that wait for nobody: gaps ~ Gamma(shape b, scale 1/(rate b)); b = 1 is Poisson, larger is steadier."""

    rate: float
    """Requests a second."""
    burstiness: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.rate <= MAX_RATE:
            raise InvalidRequestError(
                f"rate must be in (0, {MAX_RATE:g}] requests a second, got {self.rate}.", param="rate"
            )
        if not 0 < self.burstiness < float("inf"):
            raise InvalidRequestError(f"burstiness must be above 0, got {self.burstiness}.", param="burstiness")


@dataclass(frozen=True, slots=True)
class Ramp:
    """One after the other, without a pause: each step has an equal share of the requests."""

    steps: tuple[ClosedLoop, ...] | tuple[OpenLoop, ...]

    def __post_init__(self) -> None:
        if not 2 <= len(self.steps) <= MAX_STEPS:
            raise InvalidRequestError(f"A ramp has 2 to {MAX_STEPS} steps, got {len(self.steps)}.", param="ramp")
        if len({type(step) for step in self.steps}) > 1:
            raise InvalidRequestError("A ramp has steps of one kind, concurrencies or rates.", param="ramp")


Load = ClosedLoop | OpenLoop | Ramp


@dataclass(frozen=True, slots=True)
class Arrival:
    """When one request, or the first of a conversation, may go out."""

    offset: float | None
    """Seconds after the start; None: as soon as there is a place."""
    places: int | None
    """So many at once, with this one; None: whoever is still on the way."""


def refuse_twice(loads: Sequence[Load]) -> None:
    """Raises InvalidRequestError if a load is named twice: its second run would find the first one's prompts cached."""
    for load, number in Counter(loads).items():
        if number > 1:
            raise InvalidRequestError(f"The load of {load_words(load)} is named {number} times; name it once.")


def plan_arrivals(load: Load, count: int, generator: random.Random) -> Iterator[Arrival]:
    """`count` arrivals in order."""
    steps = load.steps if isinstance(load, Ramp) else (load,)
    time = 0.0
    for index in range(count):
        step = steps[index * len(steps) // count]
        if isinstance(step, ClosedLoop):
            yield Arrival(None, step.concurrency)
        else:
            yield Arrival(time, None)
            time += generator.gammavariate(step.burstiness, 1 / (step.rate * step.burstiness))


def write_load(load: Load) -> dict[str, object]:
    """As a JSON object."""
    if isinstance(load, ClosedLoop):
        return {"kind": "closed", "concurrency": load.concurrency}
    if isinstance(load, OpenLoop):
        return {"kind": "open", "rate": load.rate, "burstiness": load.burstiness}
    return {"kind": "ramp", "steps": [write_load(step) for step in load.steps]}


def read_load(value: object) -> Load:
    """What `write_load` wrote; a load is itself. Raises InvalidRequestError for anything else."""
    try:
        match value:
            case ClosedLoop() | OpenLoop() | Ramp():
                return value
            case {"kind": "closed", "concurrency": int() | float() as concurrency}:
                return ClosedLoop(int(concurrency))
            case {"kind": "open", "rate": int() | float() as rate, "burstiness": int() | float() as burstiness}:
                return OpenLoop(float(rate), float(burstiness))
            case {"kind": "ramp", "steps": list() as steps}:
                loads = [read_load(step) for step in steps]
                closed = tuple(load for load in loads if isinstance(load, ClosedLoop))
                opened = tuple(load for load in loads if isinstance(load, OpenLoop))
                if len(loads) in (len(closed), len(opened)):
                    return Ramp(closed or opened)
    except (OverflowError, RecursionError, ValueError):
        pass  # numbers and nesting beyond all loads
    raise InvalidRequestError("A load of the run cannot be read.")


def load_words(load: Load) -> str:
    """For people: "16 at once", "2 requests/s", "1 to 16 at once in 3 steps"."""
    if isinstance(load, ClosedLoop):
        return f"{load.concurrency} at once"
    if isinstance(load, OpenLoop):
        kind = "" if load.burstiness == 1 else f", burstiness {load.burstiness:g}"
        return f"{load.rate:g} requests/s{kind}"
    first, last = (load_words(step).partition(" ") for step in (load.steps[0], load.steps[-1]))
    return f"{first[0]} to {last[0]} {last[2]} in {len(load.steps)} steps"
