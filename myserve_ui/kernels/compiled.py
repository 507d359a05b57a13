"""Loops over numbers in machine code of this processor, for what would be many calls with little to do in each."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar, cast

from numba import njit, types
from numba.core.caching import FunctionCache
from numba.core.ccallback import CFunc

Loop = TypeVar("Loop", bound=Callable[..., Any])

FREEDOMS = {"reassoc", "contract", "nsz", "arcp"}
"""What the compiler may do with sums: order them for its registers. NaN and infinity stay what they are."""

OPTIONS: Mapping[str, Any] = MappingProxyType({"fastmath": FREEDOMS, "error_model": "numpy"})

logger = logging.getLogger(__name__)


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
    loop: Any = CFunc(function, signature, locals={}, options={**OPTIONS, "nopython": True})
    _keep_on_disk(loop, function)
    loop.compile()
    return loop


def _compile(function: Loop, *, nogil: bool) -> Loop:
    loop: Any = njit(**OPTIONS, nogil=nogil)(function)
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
