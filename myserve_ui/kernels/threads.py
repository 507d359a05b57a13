"""The threads that products are computed on: how many, while other programs compute too, and loops that borrow them.

A product gets as many as cores are left over. Its threads wait for the slowest of them: one whose core is taken keeps
all waiting, in every product of a step, so that another program on a quarter of one core makes two threads slower than
one alone (docs/log.md has the figures). What the host takes from a virtual machine ("steal") is nothing that a thread
less could help.
"""

from __future__ import annotations

import ctypes
import functools
import logging
import os
import time
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import torch

from myserve_ui.core.container_limits import read_container_limits

logger = logging.getLogger(__name__)

PERIOD = 0.5
"""Seconds between two looks; what the system counts comes in hundredths."""
SPARE = 0.2
"""Cores that others may use before one is left to them: a browser that shows an answer, a client that reads it."""
BUSY = ("user", "system", "irq", "softirq")
"""Kinds of processor time in which somebody computes, where the system tells them."""
NICE = "nice"
"""Time of programs that give way to others: to us too, unless we are one of them."""

LIBRARY = "libgomp*.so*"
Parallel = Callable[[int, int, int, int], None]


@dataclass(frozen=True, slots=True)
class CoreSeconds:
    """Seconds of processor time since some beginning, on the cores that this process may use."""

    everybody: float
    own: float


def read_core_seconds(cores: Collection[int]) -> CoreSeconds:
    """As the system counts, everybody's on `cores` only."""
    kinds = (*BUSY, NICE) if _gives_way() else BUSY
    times, own = psutil.cpu_times(percpu=True), os.times()
    everybody = sum(getattr(times[core], kind, 0.0) for core in cores if core < len(times) for kind in kinds)
    return CoreSeconds(everybody, own.user + own.system)


def _gives_way() -> bool:
    return hasattr(os, "nice") and os.nice(0) > 0


class CoreShare:
    """Bounds the threads of products on one thread by what others leave of the machine's cores."""

    def __init__(
        self,
        *,
        most: int,
        cores: int,
        read: Callable[[], CoreSeconds],
        is_fixed: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`most`: threads when nobody else computes, or whatever others do if it `is_fixed`.

        `cores`: that `read` counts, of which we may have fewer threads on purpose.
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
        if last is None:
            return
        # Long ago is looked at like a moment ago: after a long step it is what happened meanwhile, after a long
        # rest the best guess, and the next look is near.
        everybody, own = seconds.everybody - last[1].everybody, seconds.own - last[1].own
        others = max(everybody - own, 0.0) / (now - last[0])
        threads = min(self._most, max(int(self._cores - others + SPARE), 1))
        if threads != self._threads:
            logger.debug("threads of a product: %d, as others use %.1f of %d cores", threads, others, self._cores)
        self._threads = threads


def follow_core_share(threads: int | None = None) -> CoreShare:
    """For this machine: `threads` whatever others do, or at most as many as torch has on the calling thread."""
    most = threads or torch.get_num_threads()
    cores = _own_cores(at_least=most)
    return CoreShare(
        most=most, cores=len(cores), is_fixed=threads is not None, read=functools.partial(read_core_seconds, cores)
    )


def _own_cores(*, at_least: int) -> Collection[int]:
    """Numbers of the cores that this process may use; of all, where the system keeps nobody to some.

    Of all, too, if those of this thread are fewer than `at_least`: then OpenMP was told to bind each thread to a core.
    """
    own = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else ()
    return own if len(own) >= at_least else range(psutil.cpu_count() or at_least)


def run_by_team(address: int, data: int, num_threads: int) -> None:
    """Call the C function at `address`, void (void *), with `data`: on `num_threads` threads at once where that can be.

    Python's lock is let go meanwhile. Returns when all have returned.
    """
    if num_threads > 1 and (parallel := _find_parallel()) is not None:
        parallel(address, data, num_threads, 0)
    else:
        _function_type()(address)(data)


@functools.cache
def _function_type() -> Any:
    return ctypes.CFUNCTYPE(None, ctypes.c_void_p)


@functools.cache
def _find_parallel() -> Parallel | None:
    """What `#pragma omp parallel` calls in the copy of GNU OpenMP that torch computes with; None if it has no such."""
    for path in sorted((Path(torch.__file__).parent / "lib").glob(LIBRARY)):
        try:
            parallel = ctypes.CDLL(str(path)).GOMP_parallel
        except (OSError, AttributeError) as error:
            logger.debug("%s lends no threads: %s", path.name, error)
            continue
        parallel.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint]
        parallel.restype = None
        return parallel
    return None


def bound_threads(threads: int | None) -> None:
    """Let CPU products of this thread, and of those not begun, use `threads` threads.

    None leaves torch's choice, a thread for each core, unless the container has less processor time than that.
    """
    current = torch.get_num_threads()  # asked first: a new thread would take the number of the process instead
    if threads is None:
        threads = read_container_limits().bound_threads(current)
    if threads != current:
        torch.set_num_threads(threads)


def compute_workers(number: int, name: str) -> ThreadPoolExecutor:
    """`number` workers whose CPU products use as many threads as those of the thread that calls.

    Left alone, a new thread uses as many as any thread of the process was bound to last.
    """
    return ThreadPoolExecutor(number, name, initializer=bound_threads, initargs=(torch.get_num_threads(),))
