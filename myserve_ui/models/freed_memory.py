"""Gives memory that a load has freed back to the system: C's allocator keeps it, hundreds of MiB, for a next time."""

from __future__ import annotations

import ctypes
import gc
import sys


def return_freed_memory() -> None:
    """Collect garbage, then give back what is free."""
    gc.collect()
    trim_heap()


def trim_heap() -> None:
    """Does nothing where the C library has no such call (it is glibc's)."""
    if sys.platform == "linux" and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)) is not None:
        trim(0)
