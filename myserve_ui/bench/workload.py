"""What is asked and when: seeded prompts, lengths and arrivals, the same for every server that is measured."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from myserve_ui.bench.loads import Arrival, Load, load_words, plan_arrivals
from myserve_ui.errors import InvalidRequestError

WORDS = (
    *("river", "stone", "lamp", "window", "garden", "paper", "cloud", "engine", "bread", "winter", "copper", "silent"),
    *("market", "bridge", "letter", "morning", "forest", "signal", "pocket", "harbour", "number", "violet", "candle"),
    *("sister", "wagon", "mirror", "thunder", "basket", "orange", "needle"),
)
MAX_REQUESTS, MAX_TURNS, MAX_LENGTH = 100_000, 64, 1_000_000
WORDS_PER_TOKEN = 1.0
"""Common English words are a token each for most vocabularies; what was sent is read from the server's usage."""


@dataclass(frozen=True, slots=True)
class Lengths:
    """A length, or a range of which each request draws one."""

    low: int
    high: int

    def __str__(self) -> str:
        return str(self.low) if self.low == self.high else f"{self.low}:{self.high}"

    def draw(self, generator: random.Random) -> int:
        return generator.randint(self.low, self.high)


@dataclass(frozen=True, slots=True)
class PlannedRequest:
    index: int
    messages: tuple[tuple[str, str], ...]
    """(role, content); of a later turn what is new, which follows the turns before and their real answers."""
    max_tokens: int
    arrival: Arrival | None = None
    """None for a later turn: it goes out when the one before it is answered."""


@dataclass(frozen=True, slots=True)
class Workload:
    """Prompts and lengths of a run. With `prompts` they are taken in turn, else made of words."""

    num_requests: int = 64
    prompt_tokens: Lengths = field(default_factory=lambda: Lengths(32, 32))
    output_tokens: Lengths = field(default_factory=lambda: Lengths(32, 32))
    prompts: tuple[str, ...] = ()
    shared_prefix_tokens: int = 0
    """So many words that every conversation begins with, as a system prompt would."""
    turns: int = 1
    """Requests of one conversation; each carries the turns before it and their real answers."""
    seed: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.num_requests <= MAX_REQUESTS:
            raise InvalidRequestError(
                f"requests must be in [1, {MAX_REQUESTS}], got {self.num_requests}.", param="requests"
            )
        if not 1 <= self.turns <= MAX_TURNS:
            raise InvalidRequestError(f"turns must be in [1, {MAX_TURNS}], got {self.turns}.", param="turns")
        if not 0 <= self.shared_prefix_tokens <= MAX_LENGTH:
            raise InvalidRequestError(
                f"shared_prefix must be in [0, {MAX_LENGTH}] tokens, got {self.shared_prefix_tokens}.",
                param="shared_prefix",
            )
        for name, lengths in (("input_len", self.prompt_tokens), ("output_len", self.output_tokens)):
            if not 1 <= lengths.low <= lengths.high <= MAX_LENGTH:
                raise InvalidRequestError(
                    f"{name} must be a length in [1, {MAX_LENGTH}], or low:high, got {lengths.low}:{lengths.high}.",
                    param=name,
                )

    def plan(self, load: Load, *, salt: str = "") -> list[PlannedRequest]:
        """The requests in the order of their arrival, turns of a conversation side by side.

        Equal seeds plan alike. Another load, or a `salt`, makes other prompts: what a server kept must not help it.
        """
        generator = random.Random(f"{self.seed}/{load_words(load)}{salt}")
        count = -(-self.num_requests // self.turns)
        arrivals = plan_arrivals(load, count, random.Random(f"{self.seed}/arrivals"))
        prefix = " ".join(random.Random(f"{self.seed}/prefix").choices(WORDS, k=self.shared_prefix_tokens))
        return [
            PlannedRequest(
                index,
                (("user", f"{'' if index % self.turns else prefix} {self._prompt(index, generator)}".strip()),),
                self.output_tokens.draw(generator),
                next(arrivals) if index % self.turns == 0 else None,
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
