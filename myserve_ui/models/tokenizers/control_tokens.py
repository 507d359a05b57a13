"""Keeps control tokens that a user spells apart from those that a chat template writes."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tokenizers import Tokenizer as RustTokenizer
from transformers import PreTrainedTokenizerBase

from myserve_ui.errors import InvalidRequestError

START, END = "\ufdd0", "\ufdd1"
"""Noncharacters: Unicode keeps them for a program's own use, so dropping them from a message loses no text."""

LOOKS_LIKE_CONTROL = re.compile(r"<\|[^<>|]*\|>")


def find_control_tokens(tokenizer: PreTrainedTokenizerBase) -> dict[str, int]:
    """Added tokens with a meaning to the model: special ones, those the template spells, and all like `<|…|>`."""
    template = str(tokenizer.chat_template or "")
    return {
        token.content: token_id
        for token_id, token in tokenizer.added_tokens_decoder.items()
        if token.content.strip()
        and (token.special or token.content in template or LOOKS_LIKE_CONTROL.fullmatch(token.content))
    }


class ControlTokens:
    """Marks control tokens in messages, and encodes the rendered chat with the marked ones as text."""

    def __init__(self, control_tokens: dict[str, int], *, as_ids: RustTokenizer, as_text: RustTokenizer) -> None:
        """`as_ids` turns special tokens in a text into their ids, `as_text` does not; both are only read."""
        self._control_ids = frozenset(control_tokens.values())
        self._as_ids = as_ids
        self._as_text = as_text
        spelled = _any_of(control_tokens)
        self._spelled = re.compile(spelled)
        self._marked = re.compile(f"{_written(START)}({spelled}){_written(END)}|[{START}{END}]")

    def mark(self, text: str) -> str:
        """`text` with a marker on both sides of each control token in it."""
        text = text.replace(START, "").replace(END, "")
        return self._spelled.sub(f"{START}\\g<0>{END}", text)

    def encode(self, chat: str) -> list[int]:
        """Ids of a rendered chat. A template may have cut a marked token in two; lone markers are dropped."""
        pieces = self._marked.split(chat)
        token_ids = encode_beside_others(self._as_ids, pieces[0])
        for index, piece in enumerate(pieces[1:], start=1):
            is_marked = index % 2 == 1
            if piece:
                token_ids += self._encode_spelled(piece) if is_marked else _encode_inside(self._as_ids, piece)
        return token_ids

    def _encode_spelled(self, token: str) -> list[int]:
        """Ids of a control token's letters; in halves where the vocabulary would know the whole."""
        half = len(token) // 2
        for parts in ([token], [token[:half], token[half:]]):
            token_ids = [token_id for part in parts for token_id in _encode_inside(self._as_text, part)]
            if token_ids and self._control_ids.isdisjoint(token_ids):
                return token_ids
        raise InvalidRequestError(f"{token!r} is a control token of this model and cannot be written as text.")


def _written(marker: str) -> str:
    """A pattern for a marker, also as a template writes it that prints a value as Python or in ASCII JSON."""
    return f"(?:{marker}|\\\\u{ord(marker):04x})"


def _encode_inside(tokenizer: RustTokenizer, piece: str) -> list[int]:
    """Ids of a piece from the middle of a text: after a newline, so that no leading space is put before it."""
    newline_ids = encode_beside_others(tokenizer, "\n")
    token_ids = encode_beside_others(tokenizer, "\n" + piece)
    if token_ids[: len(newline_ids)] == newline_ids:
        return token_ids[len(newline_ids) :]
    return encode_beside_others(tokenizer, piece)


def _any_of(tokens: Iterable[str]) -> str:
    """A pattern for any of `tokens`, longer ones first; without tokens one that never matches."""
    return "|".join(re.escape(token) for token in sorted(tokens, key=len, reverse=True)) or "(?!)"


def encode_beside_others(tokenizer: RustTokenizer, text: str, *, add_special_tokens: bool = False) -> list[int]:
    """Ids of `text`. `encode` holds the interpreter's lock, 0.3 s for 200 kB; `encode_batch` lets go of it."""
    (encoding,) = tokenizer.encode_batch([text], add_special_tokens=add_special_tokens)
    return list(encoding.ids)
