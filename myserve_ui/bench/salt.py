"""First words that no other run has: a server that kept an earlier run's prompts finds none of them again."""

from __future__ import annotations

import random
import secrets
from collections.abc import Sequence

NUM_WORDS = 4
"""Of some thirty each: one in a million conversations begins as another does."""
MOST_LETTERS = 64


def fresh_salt() -> str:
    """One that was never used."""
    return secrets.token_hex(4)


def salted(words: Sequence[str], vocabulary: Sequence[str], *, salt: str, place: str) -> list[str]:
    """`words` with others of `vocabulary` for the first; as many as before. Without a salt they stay as they are."""
    count = min(NUM_WORDS, len(words)) if salt else 0
    return [*opening(vocabulary, salt=salt, place=place)[:count], *words[count:]]


def opening(vocabulary: Sequence[str], *, salt: str, place: str) -> list[str]:
    """First words for a `place` of the run, the same for the same salt."""
    return random.Random(f"{salt}/{place}").choices(vocabulary, k=NUM_WORDS)
