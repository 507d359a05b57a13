"""Log-probabilities in the two shapes of OpenAI's reference: a list for chats, columns for text completions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from myserve_ui.api.token_alignment import AlignedToken
from myserve_ui.api.wire_json import JsonObject
from myserve_ui.core.tokenizer import Tokenizer

LEAST = -9999.0
"""What stands for minus infinity, which JSON cannot say."""


class LogprobWriter:
    """Writes tokens as a client sees them: their text, or the name of a special token."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._table = tokenizer.token_bytes()
        self._names = tokenizer.special_tokens

    def chat(self, tokens: Iterable[AlignedToken]) -> JsonObject:
        """A list of entries whose joined bytes are the content; an end token, which adds nothing to it, is left out."""
        return {"content": [self._chat_entry(token) for token in tokens if token.data], "refusal": None}

    def text(self, tokens: Sequence[AlignedToken]) -> JsonObject:
        """Columns with a place for every token, an end token too; the first token of a prompt has null."""
        return {
            "tokens": [self._name(token.token_id, token.data) for token in tokens],
            "token_logprobs": [None if token.logprob is None else _finite(token.logprob.logprob) for token in tokens],
            "top_logprobs": [self._likeliest(token) for token in tokens],
            "text_offset": [token.offset for token in tokens],
        }

    def _chat_entry(self, token: AlignedToken) -> JsonObject:
        own = token.logprob
        top = own.top if own else ()
        return {
            **_entry(token_text(token.data), own.logprob if own else 0.0, token.data),
            "top_logprobs": [
                _entry(self._name(token_id, self._table[token_id]), logprob, self._table[token_id])
                for token_id, logprob in top
            ],
        }

    def _likeliest(self, token: AlignedToken) -> JsonObject | None:
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


def _entry(text: str, logprob: float, data: bytes) -> dict[str, object]:
    return {"token": text, "logprob": _finite(logprob), "bytes": list(data)}


def _finite(logprob: float) -> float:
    return max(logprob, LEAST)
