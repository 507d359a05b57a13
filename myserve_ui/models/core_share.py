"""How many threads a product gets while other programs compute too: as many as cores are left over.

The threads of a product wait for the slowest of them. One whose core is taken keeps all waiting, in every product of a
step, so that a program on a quarter of one core makes two threads slower than one alone.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass

import psutil
import torch

logger = logging.getLogger(__name__)

PERIOD = 0.5
"""Seconds between two looks; what the system counts comes in hundredths."""
STALE = 5.0
"""Seconds after which a look says too little about now."""
SPARE = 0.2
"""Cores that others may use before one is left to them: a browser that shows an answer, a client that reads it."""
BUSY = ("user", "system", "irq", "softirq")
"""Kinds of processor time in which somebody computes, where the system tells them. `nice` gives way to us."""


@dataclass(frozen=True, slots=True)
class CoreSeconds:
    """Seconds of processor time since some beginning."""

    everybody: float
    own: float


def read_core_seconds() -> CoreSeconds:
    """Of the whole machine and of this process, as the system counts."""
    whole, own = psutil.cpu_times(), os.times()
    return CoreSeconds(sum(getattr(whole, kind, 0.0) for kind in BUSY), own.user + own.system)


class CoreShare:
    """Bounds the threads of products on one thread by what others leave of the machine's cores."""

    def __init__(
        self,
        *,
        most: int,
        cores: int,
        is_fixed: bool = False,
        read: Callable[[], CoreSeconds] = read_core_seconds,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`most`: threads when nobody else computes, or whatever others do if it `is_fixed`.

        `cores`: of the machine, of which we may be kept from some.
        """
        self._most = most
        self._cores = cores
        self._read = read
        self._clock = clock
        self._threads = most
        self._last: tuple[float, CoreSeconds] | None = None
        self._can_read = most > 1 and not is_fixed

    @property
    def threads(self) -> int:
        """How many the next product should have. Looks at the machine from time to time, in microseconds."""
        now = self._clock()
        if self._can_read and (self._last is None or now - self._last[0] >= PERIOD):
            self._look(now)
        return self._threads

    def apply(self) -> None:
        """Have products of the calling thread use that many."""
        if (threads := self.threads) != torch.get_num_threads():
            torch.set_num_threads(threads)

    def _look(self, now: float) -> None:
        try:
            seconds = self._read()
        except Exception as error:  # the border to a system that may not tell; answers matter more than this
            logger.info("products keep %d threads: how busy the machine is cannot be read (%s)", self._most, error)
            self._can_read, self._threads = False, self._most
            return
        last, self._last = self._last, (now, seconds)
        if last is None or now - last[0] > STALE:
            return
        everybody, own = seconds.everybody - last[1].everybody, seconds.own - last[1].own
        others = max(everybody - own, 0.0) / (now - last[0])
        self._threads = min(self._most, max(int(self._cores - others + SPARE), 1))


def follow_core_share(threads: int | None = None) -> CoreShare:
    """For this machine: `threads` whatever others do, or at most as many as torch has on the calling thread."""
    most = threads or torch.get_num_threads()
    return CoreShare(most=most, cores=psutil.cpu_count() or most, is_fixed=threads is not None)
