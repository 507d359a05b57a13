"""What is asked and when: seeded prompts, lengths and arrivals, the same for every server that is measured."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from myserve_ui.bench.loads import Arrival, Load, load_words, plan_arrivals
from myserve_ui.bench.salt import MOST_LETTERS, opening, salted
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
    salt: str | None = None
    """Makes the first words of each conversation; "" for none, None for one that each benchmark draws for itself."""

    def __post_init__(self) -> None:
        if not 1 <= self.num_requests <= MAX_REQUESTS:
            raise InvalidRequestError(
                f"requests must be in [1, {MAX_REQUESTS}], got {self.num_requests}.", param="requests"
            )
        if not 1 <= self.turns <= MAX_TURNS:
            raise InvalidRequestError(f"turns must be in [1, {MAX_TURNS}], got {self.turns}.", param="turns")
        if not 0 <= self.shared_prefix_tokens <= MAX_LENGTH:
            raise InvalidRequestError(
                f"shared_prefix_tokens must be in [0, {MAX_LENGTH}], got {str(self.shared_prefix_tokens)[:40]}.",
                param="shared_prefix_tokens",
            )
        if not 0 <= self.seed <= MAX_SEED:
            raise InvalidRequestError(f"seed must be in [0, 2^63 - 1], got {str(self.seed)[:40]}.", param="seed")
        if len(self.salt or "") > MOST_LETTERS:
            raise InvalidRequestError(
                f"salt may have {MOST_LETTERS} letters, got {len(self.salt or '')}.", param="salt"
            )
        for name, lengths in (("prompt_tokens", self.prompt_tokens), ("output_tokens", self.output_tokens)):
            if not 1 <= lengths.low <= lengths.high <= MAX_LENGTH:
                raise InvalidRequestError(
                    f"{name} must be a length in [1, {MAX_LENGTH}], or low:high, got {lengths.low}:{lengths.high}.",
                    param=name,
                )

    def plan(self, load: Load, *, part: str = "") -> list[PlannedRequest]:
        """The requests in the order of their arrival, turns of a conversation side by side.

        Equal seeds plan alike, but for the first words of conversations, which come from the salt. Another load, or
        another `part` of a run, makes other prompts: what a server kept must not help it.
        """
        place = f"{load_words(load)}{part}"
        generator = random.Random(f"{self.seed}/{place}")
        count = -(-self.num_requests // self.turns)
        arrivals = plan_arrivals(load, count, random.Random(f"{self.seed}/arrivals"))
        prefix = self._prefix(place)
        return [
            PlannedRequest(
                index,
                (("user", self._message(index, prefix, place, generator)),),
                self.output_tokens.draw(generator),
                next(arrivals) if index % self.turns == 0 else None,
            )
            for index in range(self.num_requests)
        ]

    def _prefix(self, place: str) -> str:
        """What all conversations of a load begin with."""
        words = random.Random(f"{self.seed}/prefix").choices(WORDS, k=self.shared_prefix_tokens)
        return " ".join(salted(words, WORDS, salt=self.salt or "", place=place))

    def _message(self, index: int, prefix: str, place: str, generator: random.Random) -> str:
        """A conversation's first message begins with words of its own, after the shared ones; a later one goes on."""
        length, is_first = self.prompt_tokens.draw(generator), index % self.turns == 0
        salt, place = (self.salt or "") if is_first else "", f"{place}/{index}"
        if self.prompts:
            words = " ".join(opening(WORDS, salt=salt, place=place)) + "\n" if salt else ""
            prompt = words + self.prompts[index % len(self.prompts)]
        else:
            drawn = generator.choices(WORDS, k=max(round(length * WORDS_PER_TOKEN), 1))
            prompt = " ".join(salted(drawn, WORDS, salt=salt, place=place))
        return f"{prefix if is_first else ''} {prompt}".strip()


def parse_lengths(value: object) -> Lengths:
    """ "32" or "64:400"; lengths are themselves. Raises InvalidRequestError."""
    if isinstance(value, Lengths):
        return value
    low, _, high = str(value).partition(":")
    try:
        return Lengths(int(low), int(high or low))
    except ValueError:
        raise InvalidRequestError(
            f"A length is a number or low:high, such as 64:400; got {str(value)[:40]!r}."
        ) from None
