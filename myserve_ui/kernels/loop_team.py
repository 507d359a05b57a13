"""Has a compiled loop run by the threads that torch's products run on: they stand by between two of them.

Another thread would have to wait for them first, since they keep their cores busy for a while when a product is done;
and would let them fall asleep, so that the next product waits in turn.
"""

from __future__ import annotations

import ctypes
import functools
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

logger = logging.getLogger(__name__)

LIBRARY = "libgomp*.so*"
Parallel = Callable[[int, int, int, int], None]


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
