"""The bytes that each id of a tokenizer adds to a text, as its own decoder would have them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import TypedDict

from tokenizers import Tokenizer as RustTokenizer

from myserve_ui.errors import InvalidRequestError

BYTE_PIECE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


class DecoderStep(TypedDict, total=False):
    """A decoder, or a step of one, as tokenizer.json describes it."""

    type: str
    decoders: list[DecoderStep]
    """Of a Sequence."""
    replacement: str
    """Of Metaspace: what stands for a space."""
    pattern: dict[str, str]
    """Of Replace: what is replaced by `content`, a String or a Regex."""
    content: str


def read_token_bytes(tokenizer: RustTokenizer, vocab_size: int) -> tuple[bytes, ...]:
    """Bytes of the ids 0..vocab_size-1; none for special tokens and for rows without a word.

    Raises InvalidRequestError for a tokenizer whose words have no bytes of their own, such as WordPiece.
    """
    description = json.loads(tokenizer.to_str())
    to_bytes = _choose_reading(list(_flatten(description.get("decoder"))))
    table = [b""] * vocab_size
    for word, token_id in tokenizer.get_vocab(with_added_tokens=False).items():
        if token_id < vocab_size:
            table[token_id] = to_bytes(word)
    for token_id, added in tokenizer.get_added_tokens_decoder().items():
        if token_id < vocab_size:
            table[token_id] = b"" if added.special else to_bytes(added.content)  # decoders make no difference
    return tuple(table)


def _flatten(decoder: DecoderStep | None) -> Iterator[DecoderStep]:
    """The decoder's steps, those inside sequences too."""
    if decoder is None:
        return
    if decoder["type"] == "Sequence":
        for inner in decoder["decoders"]:
            yield from _flatten(inner)
    else:
        yield decoder


def _choose_reading(steps: list[DecoderStep]) -> Callable[[str], bytes]:
    """How this decoder turns one word into bytes."""
    types = {step["type"] for step in steps}
    if "ByteLevel" in types:
        letters = _byte_of_letter()
        return lambda word: _read_letters(word, letters)
    if types & {"ByteFallback", "Metaspace"}:
        replaced = dict(_replacements(steps))
        return lambda word: _read_pieces(word, replaced)
    raise InvalidRequestError(
        "This model's tokenizer does not say which bytes its tokens stand for, so neither can log-probabilities be "
        "told with its tokens nor answers be held to a form: leave logprobs, response_format and tools out, or use "
        "another model."
    )


def _byte_of_letter() -> dict[str, int]:
    """Byte-level BPE writes printable bytes as themselves and the others as letters from U+0100 on (GPT-2's table)."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(0x100 + n): byte for n, byte in enumerate(others)}


def _read_letters(word: str, letters: dict[str, int]) -> bytes:
    if all(letter in letters for letter in word):
        return bytes(letters[letter] for letter in word)
    return word.encode("utf-8", errors="replace")


def _replacements(steps: list[DecoderStep]) -> Iterator[tuple[str, str]]:
    """Texts that the decoder replaces, such as U+2581 by a space."""
    for step in steps:
        if step["type"] == "Metaspace":
            yield step.get("replacement", "\u2581"), " "
        elif step["type"] == "Replace" and "String" in step["pattern"]:
            yield step["pattern"]["String"], step["content"]


def _read_pieces(word: str, replaced: dict[str, str]) -> bytes:
    if piece := BYTE_PIECE.fullmatch(word):
        return bytes([int(piece[1], 16)])
    for old, new in replaced.items():
        word = word.replace(old, new)
    return word.encode("utf-8", errors="replace")
