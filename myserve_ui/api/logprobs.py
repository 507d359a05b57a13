"""Log-probabilities of an answer's tokens: each token beside the text that it became, in OpenAI's two shapes."""

from __future__ import annotations

import codecs
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from typing_extensions import TypedDict

from myserve_ui.core.outputs import TokenLogprob
from myserve_ui.core.tokenizer import Tokenizer

LEAST = -9999.0
"""What stands for minus infinity, which JSON cannot say."""


class Likely(TypedDict):
    token: str
    logprob: float
    bytes: list[int]


class ChatToken(Likely):
    top_logprobs: list[Likely]


class ChatLogprobs(TypedDict):
    """A list of entries whose joined bytes are the content."""

    content: list[ChatToken]
    refusal: None


class TextLogprobs(TypedDict):
    """Columns with a place for every token."""

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None]
    text_offset: list[int]


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


class LogprobWriter:
    """Writes tokens as a client sees them: their text, or the name of a special token."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._table = tokenizer.token_bytes()
        self._names = tokenizer.special_tokens

    def chat(self, tokens: Iterable[AlignedToken]) -> ChatLogprobs:
        """The entries of `tokens`; an end token, which adds nothing to the content, is left out."""
        return {"content": [self._chat_entry(token) for token in tokens if token.data], "refusal": None}

    def text(self, tokens: Sequence[AlignedToken]) -> TextLogprobs:
        """The columns of `tokens`, an end token too; the first token of a prompt has null."""
        return {
            "tokens": [self._name(token.token_id, token.data) for token in tokens],
            "token_logprobs": [None if token.logprob is None else _finite(token.logprob.logprob) for token in tokens],
            "top_logprobs": [self._likeliest(token) for token in tokens],
            "text_offset": [token.offset for token in tokens],
        }

    def _chat_entry(self, token: AlignedToken) -> ChatToken:
        own = token.logprob
        top = own.top if own else ()
        return {
            **_likely(token_text(token.data), own.logprob if own else 0.0, token.data),
            "top_logprobs": [
                _likely(self._name(token_id, self._table[token_id]), logprob, self._table[token_id])
                for token_id, logprob in top
            ],
        }

    def _likeliest(self, token: AlignedToken) -> dict[str, float] | None:
        """The k likeliest tokens and the one that was chosen; of two that read the same, that one or the likelier."""
        if token.logprob is None:
            return None
        likeliest: dict[str, float] = {}
        for token_id, logprob in token.logprob.top:
            likeliest.setdefault(self._name(token_id, self._table[token_id]), _finite(logprob))
        return likeliest | {self._name(token.token_id, token.data): _finite(token.logprob.logprob)}

    def _name(self, token_id: int, data: bytes) -> str:
        return self._names.get(token_id) or token_text(data)


def token_text(data: bytes) -> str:
    """`data` as text; what is no whole character is spelled as OpenAI does: bytes:\\xf0\\x9f."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in data)


def _likely(text: str, logprob: float, data: bytes) -> Likely:
    return {"token": text, "logprob": _finite(logprob), "bytes": list(data)}


def _finite(logprob: float) -> float:
    return max(logprob, LEAST)
