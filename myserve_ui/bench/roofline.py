"""How fast a decode step could be: the larger of the time to read what it reads and the time to multiply."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from myserve_ui.core.memory_report import MemoryReport

EXPANDED_FORMATS = frozenset({"nf4", "fp4"})
"""Formats that some kernels write out as full numbers before the product, and then read again."""


@dataclass(frozen=True, slots=True)
class MachineSpeed:
    """What one device was measured to do."""

    bytes_per_s: float
    """Read from memory, over a buffer far larger than the last cache."""
    flops_per_s: float
    """Of a large product in `dtype`."""
    device: str
    dtype: str


@dataclass(frozen=True, slots=True)
class ModelCost:
    """What a step of one (model, precision) has to do."""

    bytes_per_step: int
    """Moved for the weights, however many sequences decode; see `count_weight_traffic`."""
    num_parameters: int
    kv_bytes_per_token: int


@dataclass(frozen=True, slots=True)
class DecodeBound:
    """The least time of one step at `batch` sequences of `context` tokens. Seconds."""

    batch: int
    context: int
    memory_seconds: float
    compute_seconds: float

    @property
    def seconds(self) -> float:
        return max(self.memory_seconds, self.compute_seconds)

    @property
    def tokens_per_second(self) -> float:
        """Ceiling of all sequences together."""
        return self.batch / self.seconds

    @property
    def is_bound_by_memory(self) -> bool:
        return self.memory_seconds >= self.compute_seconds


def count_weight_traffic(memory: MemoryReport, *, expanded_itemsize: int | None = None) -> int:
    """Bytes that a step moves for the weights.

    Every byte once, but for an embedding that is only looked up. With `expanded_itemsize` (bytes of a number of the
    compute dtype) 4-bit weights of bitsandbytes are first written out in it and then read again.
    """
    total = 0
    for group in memory.groups:
        if group.pattern == memory.lookup:
            continue
        total += group.weight_bytes
        if expanded_itemsize is not None and group.format in EXPANDED_FORMATS:
            total += 2 * group.num_parameters * expanded_itemsize
    return total


def predict_decode(machine: MachineSpeed, cost: ModelCost, *, batch: int, context: int) -> DecodeBound:
    """The bound of one decode step. Raises ValueError for a batch below 1 or a negative context."""
    if batch < 1 or context < 0:
        raise ValueError(f"a step needs a batch of at least 1 and a context of at least 0, got {batch} and {context}")
    moved = cost.bytes_per_step + batch * context * cost.kv_bytes_per_token
    return DecodeBound(
        batch=batch,
        context=context,
        memory_seconds=moved / machine.bytes_per_s,
        compute_seconds=2 * cost.num_parameters * batch / machine.flops_per_s,
    )


def find_crossing_batch(machine: MachineSpeed, cost: ModelCost, *, context: int = 0) -> int | None:
    """The smallest batch whose step is bound by arithmetic; None if reading keys and values always takes longer."""
    per_sequence = 2 * cost.num_parameters / machine.flops_per_s
    per_sequence -= context * cost.kv_bytes_per_token / machine.bytes_per_s
    if per_sequence <= 0:
        return None
    return math.floor(cost.bytes_per_step / machine.bytes_per_s / per_sequence) + 1


def count_sequences_that_fit(free_bytes: int, kv_bytes_per_token: int, length: int) -> int:
    """Sequences of `length` tokens whose keys and values fit into `free_bytes`."""
    return max(0, free_bytes) // (kv_bytes_per_token * length)


def write_roofline(
    machine: MachineSpeed, cost: ModelCost, points: Iterable[tuple[int, int]], *, weight_bytes: int
) -> dict[str, object]:
    """The `roofline` document over (batch, context) points; milliseconds in `bound_ms`."""
    bounds = [predict_decode(machine, cost, batch=batch, context=context) for batch, context in points]
    return {
        "device": machine.device,
        "dtype": machine.dtype,
        "bandwidth_bytes_per_s": machine.bytes_per_s,
        "flops_per_s": machine.flops_per_s,
        "weight_bytes": weight_bytes,
        "bytes_per_step": cost.bytes_per_step,
        "kv_bytes_per_token": cost.kv_bytes_per_token,
        "rows": [
            {
                "batch": bound.batch,
                "context": bound.context,
                "bound_ms": 1000 * bound.seconds,
                "tokens_per_s": bound.tokens_per_second,
                "bound_by": "memory" if bound.is_bound_by_memory else "arithmetic",
            }
            for bound in bounds
        ],
    }
