"""Cuts a server's bytes into events with JSON, as they come: lines end by CR, LF or both, and by nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from myserve_ui.bench.client.foreign_words import NOT_JSON, ForeignAnswerError, read_json

LINE_END = re.compile(rb"\r\n|\r|\n")
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
DONE = "[DONE]"
MOST_STRAY_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One event."""

    name: str
    """As the server calls it; empty for most."""
    text: str
    value: Any
    """What its data says in JSON, NOT_JSON if that is something else."""


@dataclass(slots=True)
class EventReader:
    """Holds what is not yet an event, never more than `most_bytes` of it; raises ForeignAnswerError beyond."""

    most_bytes: int
    strays: bytearray = field(default_factory=bytearray)
    """The beginning of what stands outside of events: the answer of a server that does not stream."""
    _line: list[bytes] = field(default_factory=list)
    _data: list[str] = field(default_factory=list)
    _name: str = ""
    _size: int = 0
    """Bytes of the unfinished line and of the unfinished event."""
    _is_first_line: bool = True
    _ends_in_cr: bool = False

    @property
    def is_cut(self) -> bool:
        """Whether the last line has no end yet."""
        return bool(self._line)

    def feed(self, chunk: bytes) -> Iterator[ServerEvent]:
        """The events that `chunk` completes."""
        if self._ends_in_cr and chunk[:1] == b"\n":
            chunk = chunk[1:]
            self._ends_in_cr = False
        if not chunk:
            return
        self._ends_in_cr = chunk[-1:] == b"\r"
        *lines, rest = LINE_END.split(chunk)
        for line in lines:
            self._hold(line)
            yield from self._end_line()
        self._hold(rest)

    def close(self) -> Iterator[ServerEvent]:
        """What the end of the bytes completes: some servers leave out the last line's end."""
        yield from self._end_line()
        yield from self._end_event()

    def _hold(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self.most_bytes:
            raise ForeignAnswerError(f"the stream holds an event of more than {self.most_bytes:,} bytes")
        if part:
            self._line.append(part)

    def _end_line(self) -> Iterator[ServerEvent]:
        line, self._line = b"".join(self._line), []
        if self._is_first_line:
            line, self._is_first_line = line.removeprefix(BYTE_ORDER_MARK), False
        if not line:
            yield from self._end_event()
            return
        if not self._data:
            self._size = 0
        yield from self._take(line)

    def _take(self, line: bytes) -> Iterator[ServerEvent]:
        """One line that is not empty."""
        name, _, value = line.decode("utf-8", errors="replace").partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            self._name = value.strip()
        elif name == "data":
            yield from self._take_data(value)
        elif name == "error":  # llama.cpp writes its errors so
            yield ServerEvent("error", value, read_json(value))
        elif name not in ("", "id", "retry"):
            self.strays += (line + b"\n")[: MOST_STRAY_BYTES - len(self.strays)]

    def _take_data(self, value: str) -> Iterator[ServerEvent]:
        """Data that is whole is an event at once: some servers leave out the empty line between events."""
        if not self._data:
            if not value.strip():
                return
            event = _event(self._name, value)
            if event.value is not NOT_JSON or event.text == DONE:
                yield event
                return
            self._size = len(value)
        self._data.append(value)

    def _end_event(self) -> Iterator[ServerEvent]:
        data, name = self._data, self._name
        self._data, self._name, self._size = [], "", 0
        if data:
            yield _event(name, "\n".join(data))


def _event(name: str, text: str) -> ServerEvent:
    return ServerEvent(name, text.strip(), read_json(text))
