"""What is asked and when: seeded prompts, lengths and arrivals, the same for every server that is measured."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from myserve_ui.errors import InvalidRequestError

WORDS = (
    *("river", "stone", "lamp", "window", "garden", "paper", "cloud", "engine", "bread", "winter", "copper", "silent"),
    *("market", "bridge", "letter", "morning", "forest", "signal", "pocket", "harbour", "number", "violet", "candle"),
    *("sister", "wagon", "mirror", "thunder", "basket", "orange", "needle"),
)
MAX_CONCURRENCY, MAX_REQUESTS, MAX_RATE = 1024, 100_000, 10_000.0
WORDS_PER_TOKEN = 1.0
"""Common English words are a token each for most vocabularies; what was sent is read from the server's usage."""


@dataclass(frozen=True, slots=True)
class Lengths:
    """A length, or a range of which each request draws one."""

    low: int
    high: int

    def draw(self, generator: random.Random) -> int:
        return generator.randint(self.low, self.high)


@dataclass(frozen=True, slots=True)
class PlannedRequest:
    index: int
    messages: tuple[tuple[str, str], ...]
    """(role, content)"""
    max_tokens: int
    offset: float | None = None
    """Seconds after the start at which it is sent; None: as soon as there is a place (closed loop)."""


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
        if not self.burstiness > 0:
            raise InvalidRequestError(f"burstiness must be above 0, got {self.burstiness}.", param="burstiness")


Load = ClosedLoop | OpenLoop


@dataclass(frozen=True, slots=True)
class Workload:
    """Prompts and lengths of a run. With `prompts` they are taken in turn, else made of words."""

    num_requests: int = 64
    prompt_tokens: Lengths = field(default_factory=lambda: Lengths(32, 32))
    output_tokens: Lengths = field(default_factory=lambda: Lengths(32, 32))
    prompts: tuple[str, ...] = ()
    shared_prefix_tokens: int = 0
    """So many words that every prompt begins with, as a system prompt would."""
    seed: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.num_requests <= MAX_REQUESTS:
            raise InvalidRequestError(
                f"requests must be in [1, {MAX_REQUESTS}], got {self.num_requests}.", param="requests"
            )
        for name, lengths in (("input_len", self.prompt_tokens), ("output_len", self.output_tokens)):
            if not 1 <= lengths.low <= lengths.high:
                raise InvalidRequestError(
                    f"{name} must be a length from 1 on, or low:high, got {lengths.low}:{lengths.high}.", param=name
                )

    def plan(self, load: Load, *, salt: str = "") -> list[PlannedRequest]:
        """The requests in the order of their arrival. Equal seeds plan alike; `salt` makes other prompts of them."""
        generator = random.Random(f"{self.seed}{salt}")
        offsets = _offsets(load, random.Random(f"{self.seed}/arrivals"))
        prefix = " ".join(random.Random(f"{self.seed}/prefix").choices(WORDS, k=self.shared_prefix_tokens))
        return [
            PlannedRequest(
                index,
                (("user", f"{prefix} {self._prompt(index, generator)}".strip()),),
                self.output_tokens.draw(generator),
                next(offsets),
            )
            for index in range(self.num_requests)
        ]

    def _prompt(self, index: int, generator: random.Random) -> str:
        length = self.prompt_tokens.draw(generator)
        if self.prompts:
            return self.prompts[index % len(self.prompts)]
        return " ".join(generator.choices(WORDS, k=max(round(length * WORDS_PER_TOKEN), 1)))


def read_prompts(path: Path) -> tuple[str, ...]:
    """Prompts of a file: one a line, or ShareGPT-like JSON (a list of {"conversations": [{"value"}, ...]} or strings).

    Raises InvalidRequestError if it cannot be read or holds none.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequestError(
            f"The prompts of {path.name} cannot be read as UTF-8 text.", param="prompts"
        ) from error
    prompts = tuple(_from_json(text) if text.lstrip().startswith("[") else (line.strip() for line in text.splitlines()))
    if not any(prompts):
        raise InvalidRequestError(f"{path.name} holds no prompt; write one a line.", param="prompts")
    return tuple(prompt for prompt in prompts if prompt)


def parse_lengths(text: str) -> Lengths:
    """ "32" or "64:400". Raises InvalidRequestError."""
    low, _, high = text.partition(":")
    try:
        return Lengths(int(low), int(high or low))
    except ValueError:
        raise InvalidRequestError(f"A length is a number or low:high, such as 64:400; got {text[:40]!r}.") from None


def _from_json(text: str) -> Iterator[str]:
    try:
        entries = json.loads(text)
    except json.JSONDecodeError:
        raise InvalidRequestError("The prompts begin like JSON and are none.", param="prompts") from None
    for entry in entries:
        yield entry if isinstance(entry, str) else _first_turn(entry)


def _first_turn(entry: Any) -> str:
    turns: Sequence[Any] = entry.get("conversations", []) if isinstance(entry, dict) else []
    first = turns[0] if turns else {}
    value = first.get("value", "") if isinstance(first, dict) else ""
    return value if isinstance(value, str) else ""


def _offsets(load: Load, generator: random.Random) -> Iterator[float | None]:
    if isinstance(load, ClosedLoop):
        while True:
            yield None
    time = 0.0
    while True:
        yield time
        time += generator.gammavariate(load.burstiness, 1 / (load.rate * load.burstiness))
