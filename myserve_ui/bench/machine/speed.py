"""Measures a device's read bandwidth and matrix rate in about a second. Uses every core: ask while nobody waits."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch

from myserve_ui.bench.roofline.roofline import MachineSpeed
from myserve_ui.kernels.linear.packed import PackedLinear, can_pack

Clock = Callable[[], float]
MEBIBYTE = 2**20


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is read and multiplied. The quickest repetition counts: others were disturbed."""

    buffer_bytes: int
    """Far larger than the last cache."""
    chunk_bytes: int
    """Read at a time; the chunks follow each other through the buffer, so that each comes from memory."""
    matrix_size: int
    seconds: float = 0.4
    """For each of the two measurements, at least one repetition."""


def usual_effort(device: torch.device) -> Effort:
    """Enough for a steady number in under a second and a half."""
    if device.type == "cpu":
        return Effort(256 * MEBIBYTE, 16 * MEBIBYTE, 512)
    return Effort(1024 * MEBIBYTE, 512 * MEBIBYTE, 8192)


def measure_machine(
    device: torch.device, dtype: torch.dtype, *, effort: Effort | None = None, clock: Clock = time.perf_counter
) -> MachineSpeed:
    """Speeds of `device`; the matrix rate is that of `dtype`. Takes 256 MiB on a CPU, 1 GiB elsewhere, for a moment."""
    effort = effort or usual_effort(device)
    return MachineSpeed(
        bytes_per_s=_measure_bandwidth(device, effort, clock),
        flops_per_s=_measure_matrix_rate(device, dtype, effort=effort, clock=clock),
        device=str(device),
        dtype=str(dtype).removeprefix("torch."),
    )


@torch.inference_mode()
def _measure_bandwidth(device: torch.device, effort: Effort, clock: Clock) -> float:
    buffer = torch.ones(effort.buffer_bytes // effort.chunk_bytes, effort.chunk_bytes // 4, device=device)
    chunks = itertools.cycle(buffer.unbind(0))
    seconds = _quickest(lambda: next(chunks).sum(), device, limit=effort.seconds, clock=clock)
    return effort.chunk_bytes / seconds


@torch.inference_mode()
def _measure_matrix_rate(device: torch.device, dtype: torch.dtype, *, effort: Effort, clock: Clock) -> float:
    size = effort.matrix_size
    left, right = (torch.full((size, size), 0.5, dtype=dtype, device=device) for _ in range(2))
    # What the engine multiplies with: on a CPU a product with a packed weight is up to half as quick again as `@`.
    product = partial(PackedLinear(right), left) if can_pack(dtype, device) else partial(torch.matmul, left, right)
    seconds = _quickest(product, device, limit=effort.seconds, clock=clock)
    return 2 * size**3 / seconds


def _quickest(work: Callable[[], object], device: torch.device, *, limit: float, clock: Clock) -> float:
    """Seconds of the quickest run within `limit` seconds, after one that warms up."""
    work()
    _wait_for(device)
    best, began = float("inf"), clock()
    while best == float("inf") or clock() - began < limit:
        start = clock()
        work()
        _wait_for(device)
        best = min(best, clock() - start)
    return best


def _wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()
