"""Loops over numbers in machine code of this processor, for what would be many calls with little to do in each."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar, cast

from numba import njit
from numba.core.caching import FunctionCache

Loop = TypeVar("Loop", bound=Callable[..., Any])

FREEDOMS = {"reassoc", "contract", "nsz", "arcp"}
"""What the compiler may do with sums: order them for its registers. NaN and infinity stay what they are."""

logger = logging.getLogger(__name__)


def compiled(function: Loop) -> Loop:
    """`function` in machine code, made at its first call for the types it is called with, and kept on disk.

    What is kept is made anew only when the file changes in which the function stands: what it calls stands there too.
    A division by zero gives infinity, as in numpy. Where nothing can be kept, each process compiles for itself.
    """
    return _compile(function, nogil=False)


def compiled_beside_others(function: Loop) -> Loop:
    """The same for a loop that may take milliseconds: other threads run Python meanwhile.

    Not for short ones: to get Python's lock back takes longer than they do, when another thread wants it.
    """
    return _compile(function, nogil=True)


def _compile(function: Loop, *, nogil: bool) -> Loop:
    loop: Any = njit(fastmath=FREEDOMS, error_model="numpy", nogil=nogil)(function)
    try:
        loop._cache = _Cache(function)  # type: ignore[no-untyped-call]
    except RuntimeError as error:  # no folder to write to
        logger.debug("%s is compiled by each process: %s", function.__name__, error)
    return cast(Loop, loop)


class _Cache(FunctionCache):
    """numba's, but for two things: a disk that fails costs time, not the loop; other FREEDOMS are another loop."""

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
        return (*super()._index_key(sig, codegen), *sorted(FREEDOMS))  # type: ignore[no-untyped-call]
