"""Lets the engines that share one processor step in turns."""

from __future__ import annotations

import threading
from types import TracebackType


class Turnstile:
    """A lock that is given in the order in which it was asked for.

    Two engines whose steps each want every core slow each other down far below half, since the threads of one
    product wait for each other; in turns, each gets its half. A plain lock would let the engine that just stepped
    take the next turn too.
    """

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._next_ticket = 0
        self._served = 0

    def __enter__(self) -> None:
        with self._condition:
            ticket = self._next_ticket
            self._next_ticket += 1
            self._condition.wait_for(lambda: self._served == ticket)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._condition:
            self._served += 1
            self._condition.notify_all()
