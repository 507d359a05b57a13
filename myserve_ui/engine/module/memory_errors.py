"""Tells a step that ran out of memory from one that failed for another reason."""

from __future__ import annotations

import torch

CPU_WORDS = ("can't allocate memory", "not enough memory", "Cannot allocate memory")
"""What torch's CPU allocator says; it raises a plain RuntimeError."""


def is_out_of_memory(error: BaseException) -> bool:
    """True if less work at once might succeed where this failed."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in CPU_WORDS)
