"""Takes what a foreign server says for what it may be: numbers with a type and a bound, words on one short line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

NOT_JSON = object()
MOST_LETTERS = 120
MESSAGES = ("message", "msg", "detail", "error", "type", "code")
"""Where servers keep the words of an error, the plainest first."""


class ForeignAnswerError(ValueError):
    """A server's answer cannot be used; its words are the end of a sentence."""


def read_json(text: str | bytes) -> Any:
    """What `text` says, NOT_JSON if nothing: broken, nested without end, or a number of thousands of digits."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return NOT_JSON


def whole_number(value: Any, *, most: int) -> int | None:
    """A count in [0, most]; None for anything else, such as true, "32", 1.5, NaN or a list. 32.0 is 32."""
    if isinstance(value, float) and value.is_integer():  # not NaN, not infinite
        value = int(value)
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most
    return value if is_count else None


def one_line(words: str, most: int = MOST_LETTERS) -> str:
    """The beginning of `words`: no line break, nothing that moves a terminal's cursor, no half of a character."""
    plain = "".join(letter if letter.isprintable() else " " for letter in words[: 4 * most])
    return " ".join(plain.split())[:most]


def shown(value: Any) -> str:
    """A value as it stands in JSON, if that is short."""
    try:
        return one_line(json.dumps(value), 40)
    except (ValueError, RecursionError):
        return "a value without end"


def error_words(answer: Any) -> str | None:
    """What an answer says went wrong, in any of the ways that servers have; None for one that says nothing of it."""
    if not isinstance(answer, Mapping):
        return None
    if error := answer.get("error"):
        return _words_of(error)
    is_error = "error" in (answer.get("object"), answer.get("type")) or ("detail" in answer and "choices" not in answer)
    return _words_of(answer) if is_error else None


def _words_of(error: Any) -> str:
    """The words of an error that is a text, an object with a message somewhere, or anything else."""
    if isinstance(error, str):
        return one_line(error)
    if isinstance(error, Mapping):
        found = next((error[name] for name in MESSAGES if error.get(name) and error[name] != "error"), error)
        return one_line(found) if isinstance(found, str) else shown(found)
    return shown(error)
