"""A question as the values of a form: what the Benchmark page asks for, and the parameters of /benchmark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from myserve_ui.bench.limits import parse_limits, write_limits
from myserve_ui.bench.loads import ClosedLoop, Load, OpenLoop, Ramp
from myserve_ui.bench.question.question import AskedTarget, BenchmarkQuestion
from myserve_ui.bench.workload import Workload, parse_lengths
from myserve_ui.errors import InvalidRequestError

LOAD_KINDS = ("closed", "open", "ramp", "ramp-rate")
ARRIVALS = ("poisson", "constant", "gamma")
CONSTANT = 1e6
"""A shape of gamma whose gaps are equal to a thousandth."""
MOST_LEVELS = 64
LARGEST = 1e300
"""Whole numbers above it have no float."""


@dataclass(frozen=True, slots=True)
class FormValues:
    """One kind of load, over the app's own models and perhaps another server. Checked by `question` alone."""

    models: tuple[str, ...] = ()
    load: str = "closed"
    levels: tuple[float, ...] = (1, 4, 16)
    arrivals: str = "poisson"
    burstiness: float = 1.0
    requests: int = 16
    prompt_tokens: str = "32"
    output_tokens: str = "32"
    time_limit: float = 600.0
    limits: str = "server"
    seed: int = 0
    warm_up: bool = True
    shared_prefix_tokens: int = 0
    turns: int = 1
    salted: bool = True
    prompts: tuple[str, ...] = ()
    prompts_from: str = ""
    url: str = ""
    url_model: str = ""
    api_key: str = ""

    def question(self) -> BenchmarkQuestion:
        """What is asked. Raises InvalidRequestError that names the value that cannot be."""
        if not (targets := self._targets()):
            raise InvalidRequestError(
                "Nothing to measure: choose a model, or give the URL of a server.", param="models"
            )
        return BenchmarkQuestion(
            targets=targets,
            loads=self._loads(),
            workload=Workload(
                num_requests=_integer("requests", self.requests),
                prompt_tokens=parse_lengths(self.prompt_tokens),
                output_tokens=parse_lengths(self.output_tokens),
                prompts=self.prompts,
                shared_prefix_tokens=_integer("shared_prefix_tokens", self.shared_prefix_tokens),
                turns=_integer("turns", self.turns),
                seed=_integer("seed", self.seed),
                salt=None if _flag("salted", self.salted) else "",
            ),
            limits=parse_limits(str(self.limits)),
            time_limit=_number("time_limit", self.time_limit),
            warm_up=_flag("warm_up", self.warm_up),
            prompts_from=self.prompts_from,
        )

    def _targets(self) -> tuple[AskedTarget, ...]:
        """The app's own models, then the peer, called by its address. Its key goes to its URL alone."""
        own = tuple(AskedTarget(model) for model in dict.fromkeys(self.models))
        if not (url := self.url.strip().rstrip("/")):
            return own
        if (address := _address(url)) is None:
            raise InvalidRequestError(f"{url[:60]!r} is no URL; it begins with http:// or https://.", param="url")
        return (*own, AskedTarget(self.url_model.strip(), url, name=address, api_key=self.api_key.strip()))

    def _loads(self) -> tuple[Load, ...]:
        """One load for each level, or a ramp over all of them."""
        if not self.levels:
            raise InvalidRequestError("Give at least one load, such as 1, 4, 16.", param="levels")
        if len(self.levels) > MOST_LEVELS:
            raise InvalidRequestError(f"At most {MOST_LEVELS} loads, got {len(self.levels)}.", param="levels")
        burstiness = self._burstiness()
        if self.load in ("open", "ramp-rate"):
            opened = tuple(OpenLoop(rate, burstiness) for rate in self.levels)
            return opened if self.load == "open" else (Ramp(opened),)
        closed = tuple(ClosedLoop(_integer("levels", level)) for level in self.levels)
        if self.load not in LOAD_KINDS:
            raise _refusal("load", LOAD_KINDS, self.load)
        return closed if self.load == "closed" else (Ramp(closed),)

    def _burstiness(self) -> float:
        """Of the chosen arrivals."""
        if self.arrivals not in ARRIVALS:
            raise _refusal("arrivals", ARRIVALS, self.arrivals)
        return {"poisson": 1.0, "constant": CONSTANT}.get(self.arrivals) or _number("burstiness", self.burstiness)


def forms_of(question: BenchmarkQuestion) -> Iterator[FormValues]:
    """The question in as many forms as it has kinds of load; of several other servers the first. A key is left out."""
    workload = question.workload
    other = next((asked for asked in question.targets if asked.url), AskedTarget())
    form = FormValues(
        models=tuple(asked.model for asked in question.targets if not asked.url),
        requests=workload.num_requests,
        prompt_tokens=str(workload.prompt_tokens),
        output_tokens=str(workload.output_tokens),
        time_limit=question.time_limit,
        limits=write_limits(question.limits),
        seed=workload.seed,
        warm_up=question.warm_up,
        shared_prefix_tokens=workload.shared_prefix_tokens,
        turns=workload.turns,
        salted=workload.salt != "",
        prompts=workload.prompts,
        prompts_from=question.prompts_from,
        url=other.url,
        url_model=other.model,
    )
    if closed := tuple(load for load in question.loads if isinstance(load, ClosedLoop)):
        yield _with_steps(form, "closed", closed)
    opened = [load for load in question.loads if isinstance(load, OpenLoop)]
    for burstiness in dict.fromkeys(load.burstiness for load in opened):
        yield _with_steps(form, "open", tuple(load for load in opened if load.burstiness == burstiness))
    for load in question.loads:
        if isinstance(load, Ramp):
            yield _with_steps(form, "ramp" if isinstance(load.steps[0], ClosedLoop) else "ramp-rate", load.steps)


def _with_steps(form: FormValues, kind: str, steps: Sequence[ClosedLoop | OpenLoop]) -> FormValues:
    first = steps[0]
    levels = tuple(step.concurrency if isinstance(step, ClosedLoop) else step.rate for step in steps)
    if isinstance(first, ClosedLoop) or first.burstiness == 1:
        return replace(form, load=kind, levels=levels)
    return replace(form, load=kind, levels=levels, arrivals="gamma", burstiness=first.burstiness)


def split_levels(text: str) -> tuple[float, ...]:
    """ "1, 4 16" as numbers. Raises InvalidRequestError."""
    try:
        return tuple(float(word) for word in text.replace(",", " ").replace(";", " ").split())
    except ValueError:
        raise InvalidRequestError(f"Loads are numbers, such as 1, 4, 16; got {text[:40]!r}.", param="levels") from None


def check_levels(value: object) -> tuple[float, ...]:
    """What a script gave: numbers, or one; 1, 4 and 16 for None. Raises InvalidRequestError."""
    values = [1, 4, 16] if value is None else value if isinstance(value, list) else [value]
    if not all(map(_is_number, values)):
        raise InvalidRequestError("levels must be numbers, such as [1, 4, 16].", param="levels")
    return tuple(map(float, values))


def _address(url: str) -> str | None:
    """Host and port, by which a peer is called; None if it is no URL that can be asked."""
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme in ("http", "https") and parts.hostname and parts.username is None and parts.port != 0
    except ValueError:
        return None
    return parts.netloc if is_usable else None


def _integer(name: str, value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    number = _number(name, value)
    if not number.is_integer():
        raise InvalidRequestError(f"{name} must be a whole number, got {number:g}.", param=name)
    return int(number)


def _number(name: str, value: object) -> float:
    if isinstance(value, int | float) and _is_number(value):
        return float(value)
    raise InvalidRequestError(f"{name} must be a number, got {str(value)[:40]!r}.", param=name)


def _flag(name: str, value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise InvalidRequestError(f"{name} must be true or false, got {str(value)[:40]!r}.", param=name)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < LARGEST


def _refusal(name: str, choices: Sequence[str], value: object) -> InvalidRequestError:
    return InvalidRequestError(f"{name} must be one of {', '.join(choices)}, got {str(value)[:40]!r}.", param=name)
