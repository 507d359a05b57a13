"""What the app and its grammar worker say to each other."""

from __future__ import annotations

import pickle
from dataclasses import dataclass

from myserve_ui.engine.grammars.vocabulary import Vocabulary

LENGTH_BYTES = 8
MAX_VOCABULARIES = 4
"""Kept in the worker: some 20 MB each for 50,000 tokens."""
READY = "ready"


@dataclass(frozen=True, slots=True)
class Trial:
    """A grammar to be tried."""

    text: str
    digest: bytes
    """Of the vocabulary."""
    vocabulary: Vocabulary | None
    """None if the worker has it."""
    mask_bytes: int
    seconds: float
    """After which the worker ends itself."""

    def frame(self) -> bytes:
        """As it goes through the pipe."""
        body = pickle.dumps(self)
        return len(body).to_bytes(LENGTH_BYTES, "big") + body
