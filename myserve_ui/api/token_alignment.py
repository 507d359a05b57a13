"""Pairs the tokens of a growing text with the part of the text that each became."""

from __future__ import annotations

import codecs
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from myserve_ui.core.logprobs import TokenLogprob


@dataclass(frozen=True, slots=True)
class AlignedToken:
    """One token beside its place in the text."""

    token_id: int
    data: bytes
    """What it adds to the text; less than a character where one is spread over several tokens; none for an end."""
    offset: int
    """Characters of the text before it."""
    logprob: TokenLogprob | None
    """None for the first token of a prompt, which follows nothing."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    token: AlignedToken
    end: int
    """Characters of the text with it; a character that it only begins counts."""


class TokenAligner:
    """Takes tokens and text as they come; gives a token back once all of its text has come.

    `table` has the bytes of every token id. Text may lag behind its tokens (half a character, a possible stop string)
    and may end before them (a stop string was found): `finish` says which.
    """

    def __init__(self, table: Sequence[bytes], *, offset: int = 0) -> None:
        self._table = table
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._unplaced: list[AlignedToken] = []
        self._waiting: deque[_Waiting] = deque()
        self._has_begun = False
        self._num_placed = offset
        self._num_released = offset

    def add(self, text: str, tokens: Iterable[tuple[int, TokenLogprob | None]]) -> list[AlignedToken]:
        """Take new tokens and new text; return the tokens whose text is complete now."""
        self._unplaced += [AlignedToken(token_id, self._table[token_id], 0, logprob) for token_id, logprob in tokens]
        if text and not self._has_begun:
            self._begin(text)
        self._num_released += len(text)
        if self._has_begun:
            self._place_all()
        ready = []
        while self._waiting and self._waiting[0].end <= self._num_released:
            ready.append(self._waiting.popleft().token)
        return ready

    def finish(self, *, is_cut: bool) -> list[AlignedToken]:
        """The tokens left at the end. `is_cut`: the text ended before them, so only what is in it remains of them."""
        self._place_all()
        left = [waiting.token for waiting in self._waiting]
        self._waiting.clear()
        if not is_cut:
            return left
        return [self._cut(token) for token in left if token.offset < self._num_released]

    def _begin(self, text: str) -> None:
        """Some tokenizers drop the space before the first word of a text, though its token has one."""
        self._has_begun = True
        for index, token in enumerate(self._unplaced):
            if token.data:
                if token.data.startswith(b" ") and not text.startswith(" "):
                    self._unplaced[index] = replace(token, data=token.data[1:])
                return

    def _place_all(self) -> None:
        for token in self._unplaced:
            start = self._num_placed
            self._num_placed += len(self._decoder.decode(token.data))
            is_inside = bool(self._decoder.getstate()[0])
            self._waiting.append(_Waiting(replace(token, offset=start), self._num_placed + is_inside))
        self._unplaced.clear()

    def _cut(self, token: AlignedToken) -> AlignedToken:
        text = token.data.decode("utf-8", errors="replace")
        return replace(token, data=text[: self._num_released - token.offset].encode())
