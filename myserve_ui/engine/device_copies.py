"""Brings small lists of numbers to the device without waiting for it.

A plain `torch.tensor(values, device="cuda")` copies from memory that may be paged out, and holds the program up until
the device has caught up. A copy from pinned memory joins the queue of work; torch's pinned allocator keeps the source
until the copy is done.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch


def staged(values: Sequence[float], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """`values` on the CPU, in memory from which a copy to `device` needs no waiting."""
    return torch.tensor(values, dtype=dtype, pin_memory=device.type == "cuda" and bool(values))


def to_device(values: Sequence[float], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """`values` as a tensor on `device`."""
    return staged(values, dtype, device).to(device, non_blocking=True)
