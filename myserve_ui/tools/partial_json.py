"""JSON objects in text that comes in pieces: where they end, and what a call's object says."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from myserve_ui.core.strict_json import read_json

_SPACE = re.compile(r"\s*")

OUTSIDE_STRINGS = frozenset(' \t\r\n{}[],:"+-.0123456789Etruefalsn')
"""Characters of JSON where no string is open."""


class JsonScanner:
    """Finds the end of one object, read from its first brace on. Checks nothing but brackets, strings and letters."""

    def __init__(self) -> None:
        self.is_broken = False
        """True once a character came that no JSON has at its place."""
        self._depth = 0
        self._in_string = False
        self._is_escaped = False

    def scan(self, text: str) -> int | None:
        """Read on; the length of the part of `text` that completes the object, or breaks it, None if it goes on."""
        for position, character in enumerate(text):
            if self._in_string:
                self._read_in_string(character)
            elif character not in OUTSIDE_STRINGS or (not self._depth and character != "{"):
                self.is_broken = True
                return position
            elif self._read_outside(character):
                return position + 1
        return None

    def _read_in_string(self, character: str) -> None:
        if self._is_escaped:
            self._is_escaped = False
        elif character == "\\":
            self._is_escaped = True
        elif character == '"':
            self._in_string = False

    def _read_outside(self, character: str) -> bool:
        """True if `character` closes the object."""
        if character == '"':
            self._in_string = True
        elif character in "{[":
            self._depth += 1
        elif character in "}]":
            self._depth -= 1
            return not self._depth
        return False


def read_call(text: str, arguments_key: str) -> tuple[str, str] | None:
    """Name and arguments of the call that `text`, a JSON object, is; arguments as they are written, {} if left out."""
    try:
        members = {key: (value, written) for key, value, written in _read_members(text)}
    except (ValueError, RecursionError):  # not JSON, a number of thousands of digits, or nested too deeply
        return None
    name, _ = members.get("name", (None, ""))
    arguments, written = members.get(arguments_key, ({}, "{}"))
    return (name, written) if isinstance(name, str) and isinstance(arguments, dict) else None


def _read_members(text: str) -> Iterator[tuple[str, Any, str]]:
    """Key, value and the value as it is written, of each member of a JSON object."""
    read_json(text)  # only then are the steps below sure of their ground
    decoder = json.JSONDecoder()
    position = _skip_space(text, text.index("{") + 1)
    while text[position] != "}":
        key, position = decoder.raw_decode(text, position)
        start = _skip_space(text, _skip_space(text, position) + 1)
        value, position = decoder.raw_decode(text, start)
        yield key, value, text[start:position]
        position = _skip_space(text, position)
        if text[position] == ",":
            position = _skip_space(text, position + 1)


def _skip_space(text: str, position: int) -> int:
    space = _SPACE.match(text, position)
    assert space is not None
    return space.end()
