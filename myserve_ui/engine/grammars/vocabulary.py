"""A model's vocabulary as grammars need it: the bytes of every id, and the ids that end an answer."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from llguidance import LLTokenizer, TokenizerWrapper

from myserve_ui.errors import InvalidRequestError

NO_END = "This model has no end token, so an answer of a given form could not end: leave response_format and tools out."


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What a grammar knows of a model; can be sent to another process."""

    token_bytes: tuple[bytes, ...]
    """None for ids that add no text: ends are never part of a text, whatever their name."""
    end_token_ids: tuple[int, ...]
    digest: bytes
    """Equal for equal vocabularies."""

    @staticmethod
    def of(token_bytes: Sequence[bytes], end_token_ids: frozenset[int]) -> Vocabulary:
        """Raises InvalidRequestError if none of the ids ends an answer."""
        ends = tuple(sorted(token_id for token_id in end_token_ids if token_id < len(token_bytes)))
        if not ends:
            raise InvalidRequestError(NO_END)
        tokens = tuple(b"" if token_id in end_token_ids else word for token_id, word in enumerate(token_bytes))
        lengths = b",".join(b"%d" % len(word) for word in tokens)
        digest = hashlib.sha256(b"%r;%s;" % (ends, lengths) + b"".join(tokens)).digest()
        return Vocabulary(tokens, ends, digest)

    @property
    def mask_bytes(self) -> int:
        """Size of a mask: a bit for each id, in whole 32-bit words."""
        return (len(self.token_bytes) + 31) // 32 * 4

    def as_tree(self) -> LLTokenizer:
        """The vocabulary as a tree of bytes; takes up to a second."""
        table = _TokenTable(list(self.token_bytes), self.end_token_ids[0])
        ends = list(self.end_token_ids)
        return LLTokenizer(TokenizerWrapper(table), eos_token=ends, slices=LLTokenizer.json_slices())


class _TokenTable:
    """A vocabulary as the library reads it."""

    bos_token_id = None

    def __init__(self, tokens: list[bytes], eos_token_id: int) -> None:
        self.tokens = tokens
        self.eos_token_id = eos_token_id

    def __call__(self, text: str) -> list[int]:
        """Ids of a text are asked for only to force tokens, which the grammar switches off."""
        raise NotImplementedError
