"""Loops over numbers in machine code of this processor, for what would be many calls with little to do in each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

Loop = TypeVar("Loop", bound=Callable[..., Any])

FREEDOMS = {"reassoc", "contract", "nsz", "arcp"}
"""What the compiler may do with sums: order them for its registers. NaN and infinity stay what they are."""


def compiled(function: Loop) -> Loop:
    """`function` in machine code, made at its first call for the types it is called with, and kept on disk.

    What is kept is made anew only when the file changes in which the function stands: what it calls stands there too.
    A division by zero gives infinity, as in numpy. Where nothing can be kept, each process compiles for itself.
    """
    try:
        return cast(Loop, njit(cache=True, fastmath=FREEDOMS, error_model="numpy")(function))
    except RuntimeError:  # no folder to write to
        return cast(Loop, njit(fastmath=FREEDOMS, error_model="numpy")(function))
