"""What is asked and when: seeded prompts, lengths and arrivals, the same for every server that is measured."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from myserve_ui.bench.loads import Arrival, Load, load_words, plan_arrivals
from myserve_ui.errors import InvalidRequestError

WORDS = (
    *("river", "stone", "lamp", "window", "garden", "paper", "cloud", "engine", "bread", "winter", "copper", "silent"),
    *("market", "bridge", "letter", "morning", "forest", "signal", "pocket", "harbour", "number", "violet", "candle"),
    *("sister", "wagon", "mirror", "thunder", "basket", "orange", "needle"),
)
MAX_REQUESTS, MAX_TURNS, MAX_LENGTH = 100_000, 64, 1_000_000
MAX_SEED = 2**63 - 1
"""What every reader of a run's JSON can hold."""
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
        if not 0 <= self.seed <= MAX_SEED:
            raise InvalidRequestError(f"seed must be in [0, 2^63 - 1], got {str(self.seed)[:40]}.", param="seed")
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


def parse_lengths(text: str) -> Lengths:
    """ "32" or "64:400". Raises InvalidRequestError."""
    low, _, high = text.partition(":")
    try:
        return Lengths(int(low), int(high or low))
    except ValueError:
        raise InvalidRequestError(f"A length is a number or low:high, such as 64:400; got {text[:40]!r}.") from None
