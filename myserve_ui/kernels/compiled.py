"""Loops over numbers in machine code of this processor, for what would be many calls with little to do in each.

And what loops of several files are made of: an exponential for vector registers, a count that threads share.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit, types
from numba.core.caching import FunctionCache
from numba.core.ccallback import CFunc
from numba.extending import intrinsic

Loop = TypeVar("Loop", bound=Callable[..., Any])

FREEDOMS = {"reassoc", "contract", "nsz", "arcp"}
"""What the compiler may do with sums: order them for its registers. NaN and infinity stay what they are."""

logger = logging.getLogger(__name__)

LOWEST, HIGHEST = -87.0, 89.0
"""From the one on e to the power of x is a normal float32; at the other it is more than any."""


def compiled(function: Loop) -> Loop:
    """`function` in machine code, made at its first call for the types it is called with, and kept on disk.

    What is kept is made anew when a file of this room changes: what a loop calls stands in it.
    A division by zero gives infinity, as in numpy. Where nothing can be kept, each process compiles for itself.
    """
    return _compile(function, nogil=False)


def compiled_beside_others(function: Loop) -> Loop:
    """The same for a loop that may take milliseconds: other threads run Python meanwhile.

    Not for short ones: to get Python's lock back takes longer than they do, when another thread wants it.
    """
    return _compile(function, nogil=True)


def compiled_for_c(function: Callable[[Any], None]) -> Any:
    """`function`, which takes a pointer, for threads that know no Python: at its `address`."""
    signature = (types.voidptr,), types.void
    options = {"fastmath": FREEDOMS, "error_model": "numpy", "nopython": True}
    loop: Any = CFunc(function, signature, locals={}, options=options)
    _keep_on_disk(loop, function)
    loop.compile()
    return loop


def _compile(function: Loop, *, nogil: bool) -> Loop:
    loop: Any = njit(fastmath=FREEDOMS, error_model="numpy", nogil=nogil)(function)
    _keep_on_disk(loop, function)
    return cast(Loop, loop)


def _keep_on_disk(loop: Any, function: Callable[..., Any]) -> None:
    try:
        loop._cache = _Cache(function)  # type: ignore[no-untyped-call]
    except RuntimeError as error:  # no folder to write to
        logger.debug("%s is compiled by each process: %s", function.__name__, error)


class _Cache(FunctionCache):
    """numba's, but a disk that fails costs time, not the loop; and other FREEDOMS or files make another loop."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)  # type: ignore[no-untyped-call]
        except Exception as error:  # whatever unpickling half a file may raise
            logger.warning("A compiled loop cannot be read and is made anew: %s", error)
            with suppress(OSError):
                self.flush()  # type: ignore[no-untyped-call] # or it would be found again at the next start
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)  # type: ignore[no-untyped-call]
        except Exception as error:
            logger.warning("A compiled loop cannot be kept, so the next start makes it anew: %s", error)

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        return (*super()._index_key(sig, codegen), *sorted(FREEDOMS), *_file_stamps())  # type: ignore[no-untyped-call]


@functools.cache
def _file_stamps() -> tuple[tuple[str, int, int], ...]:
    """Name, time and size of the files in this room."""
    files = ((path.name, path.stat()) for path in sorted(Path(__file__).parent.glob("*.py")))
    return tuple((name, about.st_mtime_ns, about.st_size) for name, about in files)


@compiled
def exp_of(x: np.float32) -> np.float32:
    """e to the power of `x`, within 2 units of the last place; no less than at LOWEST, and infinity from 88.4 on.

    `2^n e^r` with `n` the whole number next to `x / ln 2`; for `e^r` the polynomial of Cephes' expf (S. Moshier), and
    ln 2 in two parts as there. Written out so that a loop over it runs in vector registers.
    """
    x = np.float32(HIGHEST) if x > np.float32(HIGHEST) else x
    x = np.float32(LOWEST) if x < np.float32(LOWEST) else x
    n = np.floor(x * np.float32(1.44269504) + np.float32(0.5))
    r = x - n * np.float32(0.693359375) + n * np.float32(2.12194440e-4)
    power = np.float32(1.9875691500e-4)
    power = power * r + np.float32(1.3981999507e-3)
    power = power * r + np.float32(8.3334519073e-3)
    power = power * r + np.float32(4.1665795894e-2)
    power = power * r + np.float32(1.6666665459e-1)
    power = power * r + np.float32(5.0000001201e-1)
    power = power * r * r + r + np.float32(1.0)
    # 2^n by its bits; those of n = 128 are infinity's.
    return power * np.int32((np.int32(n) + np.int32(127)) << np.int32(23)).view(np.float32)  # type: ignore[no-any-return]


@intrinsic
def _claim_next(_context: Any, counter: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        return builder.atomic_rmw("add", array.data, context.get_constant(types.int64, 1), "monotonic")

    return types.int64(counter), generate


@intrinsic
def _as_pointer(_context: Any, _address: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.voidptr(types.int64), generate


@compiled
def claim_next(counter: np.ndarray) -> int:
    """The number that `counter` [1] of int64 begins with, one higher then; no two threads are given the same."""
    claim: Any = _claim_next
    return claim(counter)  # type: ignore[no-any-return]


@compiled
def as_pointer(address: int) -> Any:
    """The pointer to what lies at `address`."""
    point: Any = _as_pointer
    return point(address)
