"""Readers of one call's JSON: as it comes where a grammar holds it to its form, else once it is whole and checked."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from myserve_ui.tools.partial_json import JsonScanner, read_call


@dataclass(frozen=True, slots=True)
class CallNews:
    """What a piece of text told of a call."""

    rest: str | None = None
    """What of the text does not belong to the call any more; None while the call goes on."""
    name: str | None = None
    """Told once."""
    arguments: str = ""
    unread: str = ""
    """Text that turned out to be no call."""


class CallBody(Protocol):
    """One call, after its opening marker and before its closing one."""

    def add(self, text: str) -> CallNews:
        """Read on. Not called again once there is a rest."""
        ...

    def finish(self) -> str | None:
        """The answer has ended inside the call: the text that it is now, or None if it is a call all the same."""
        ...


class CheckedBody:
    """A call that a model wrote freely: told when it is whole, and text where it is no call of an offered function."""

    def __init__(self, names: Collection[str], arguments_key: str) -> None:
        self._names = names
        self._arguments_key = arguments_key
        self._text = ""
        self._scanner = JsonScanner()

    def add(self, text: str) -> CallNews:
        if not self._text.strip():
            leading = len(text) - len(text.lstrip())
            self._text, text = self._text + text[:leading], text[leading:]
        end = self._scanner.scan(text)
        if end is None:
            self._text += text
            return CallNews()
        whole, rest = self._text + text[:end], text[end:]
        call = None if self._scanner.is_broken else read_call(whole, self._arguments_key)
        if call is None or call[0] not in self._names:
            return CallNews(rest=rest, unread=whole)
        return CallNews(rest=rest, name=call[0], arguments=call[1])

    def finish(self) -> str:
        return self._text


class HeldBody:
    """A call that a grammar holds to its form: its name is told at once, its arguments as they come."""

    def __init__(self, arguments_key: str) -> None:
        self._opening = re.compile(rf'\s*\{{"name": "([^"]*)", "{arguments_key}": ')
        self._text = ""
        self._is_open = False
        self._arguments = JsonScanner()
        self._are_arguments_whole = False

    def add(self, text: str) -> CallNews:
        self._text += text
        name = None if self._is_open else self._read_opening()
        if not self._is_open:
            return CallNews()
        arguments = "" if self._are_arguments_whole else self._read_arguments()
        brace = self._text.find("}") if self._are_arguments_whole else -1
        return CallNews(rest=None if brace < 0 else self._text[brace + 1 :], name=name, arguments=arguments)

    def finish(self) -> None:
        return None

    def _read_opening(self) -> str | None:
        if (opening := self._opening.match(self._text)) is None:
            return None
        self._text = self._text[opening.end() :]
        self._is_open = True
        return opening[1]

    def _read_arguments(self) -> str:
        end = self._arguments.scan(self._text)
        arguments, self._text = self._text[:end], "" if end is None else self._text[end:]
        self._are_arguments_whole = end is not None
        return arguments
