"""Finds stop strings in growing text and holds back what might become one."""

from __future__ import annotations


class StopChecker:
    """Watches the text of one sequence. Text is released only once no stop string can begin in it."""

    def __init__(self, stop: tuple[str, ...]) -> None:
        self._stop = stop
        self._held = ""
        self.matched: str | None = None
        """The stop string that ended the text, once one did."""

    def add(self, text: str) -> str:
        """Take new text; return what may be sent. The earliest match wins and is never part of the output."""
        if not self._stop:
            return text
        self._held += text
        if (match := self._earliest_match()) is not None:
            start, self.matched = match
            return self._release(start)
        return self._release(len(self._held) - self._longest_possible_start())

    def flush(self) -> str:
        """Return the text still held back: the end has come and nothing can complete a stop string."""
        return self._release(len(self._held))

    def _release(self, length: int) -> str:
        released, self._held = self._held[:length], self._held[length:]
        return released

    def _earliest_match(self) -> tuple[int, str] | None:
        found = [(at, stop) for stop in self._stop if (at := self._held.find(stop)) >= 0]
        return min(found, key=lambda match: match[0]) if found else None

    def _longest_possible_start(self) -> int:
        """Length of the longest end of the held text that begins some stop string."""
        longest = min(len(self._held), max(len(stop) for stop in self._stop) - 1)
        for length in range(longest, 0, -1):
            if any(stop.startswith(self._held[-length:]) for stop in self._stop):
                return length
        return 0
