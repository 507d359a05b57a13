"""The thread that computes for one processor: it steps the engines that share it, in turns.

A CPU product is shared out to a team of threads that belongs to whoever asks for it and waits for the next one. Where
more threads wait than there are cores, OpenMP sends all of them to sleep after each product, and to wake them takes
longer than the product of a small model. So steps are made on one thread, and other work that multiplies gets a thread
that ends with it.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Protocol, TypeVar

from myserve_ui.kernels.threads import compute_workers

logger = logging.getLogger(__name__)

_Result = TypeVar("_Result")


class Stepped(Protocol):
    """What takes turns on a StepLoop."""

    @property
    def wants_turn(self) -> bool: ...

    def take_turn(self) -> bool:
        """Do a step's worth; False when there will be no other. Whatever it raises ends it too."""
        ...


class StepLoop:
    """Gives a turn each to all who want one, round after round; sleeps while nobody does, ends when all have left."""

    def __init__(self, name: str, *, before_round: Callable[[], None] = lambda: None) -> None:
        """`before_round`: called on the thread before each round of turns."""
        self._name = name
        self._before_round = before_round
        self._changed = threading.Condition()
        self._members: dict[Stepped, threading.Event] = {}
        self._is_running = False
        self._stepping: Stepped | None = None

    def add(self, member: Stepped) -> threading.Event:
        """Let `member` take part from now on, until its turn says False or it leaves: then the event is set."""
        with self._changed:
            has_left = self._members[member] = threading.Event()
            if not self._is_running:
                self._is_running = True
                threading.Thread(target=self._run, name=f"steps-{self._name}", daemon=True).start()
            self._changed.notify()
            return has_left

    def wake(self) -> None:
        """Somebody may want a turn who did not before."""
        with self._changed:
            self._changed.notify()

    def leave(self, member: Stepped) -> bool:
        """Take `member` out at once, if it is not in the middle of a turn: then it has to say so itself."""
        with self._changed:
            if self._stepping is member:
                return False
            self._remove(member)
            self._changed.notify()
            return True

    def _run(self) -> None:
        # No name here may hold a member while the thread sleeps: one that has left would keep its weights.
        while round_of_turns := self._wait_for_work():
            self._begin_round()
            while round_of_turns:
                self._give_turn(round_of_turns.pop(0))

    def _begin_round(self) -> None:
        try:
            self._before_round()
        except Exception:  # the border: whoever waits for a turn gets it
            logger.exception("what comes before a round on the thread %s failed", self._name)

    def _give_turn(self, member: Stepped) -> None:
        with self._changed:
            if member not in self._members:
                return
            self._stepping = member
        goes_on = False
        try:
            goes_on = member.take_turn()
        except BaseException:  # the border: the others go on
            logger.exception("a turn on the thread %s failed", self._name)
        with self._changed:
            self._stepping = None
            if not goes_on:
                self._remove(member)

    def _wait_for_work(self) -> list[Stepped]:
        """Those who want a turn; none when all have left, and the thread must end."""
        with self._changed:
            while self._members:
                if ready := [member for member in self._members if member.wants_turn]:
                    return ready
                self._changed.wait()
            self._is_running = False
            return []

    def _remove(self, member: Stepped) -> None:
        if (has_left := self._members.pop(member, None)) is not None:
            has_left.set()


async def on_own_thread(work: Callable[..., _Result], *arguments: object) -> _Result:
    """What `work` returns, which blocks and multiplies: computed on a thread that is gone afterwards."""
    executor = compute_workers(1, "own")  # what others left to the thread that steps is no bound for it
    try:
        return await asyncio.get_running_loop().run_in_executor(executor, work, *arguments)
    finally:
        executor.shutdown(wait=False)
