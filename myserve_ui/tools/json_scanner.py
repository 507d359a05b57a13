"""Finds the end of a JSON object in text that comes in pieces. Checks nothing but brackets, strings and letters."""

from __future__ import annotations

OUTSIDE_STRINGS = frozenset(' \t\r\n{}[],:"+-.0123456789Etruefalsn')
"""Characters of JSON where no string is open."""


class JsonScanner:
    """Reads one object, from its first brace on."""

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
