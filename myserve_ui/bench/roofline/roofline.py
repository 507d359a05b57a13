"""How fast a decode step could be: the larger of the time to read what it reads and the time to multiply."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from myserve_ui.core.model_info import ModelInfo


@dataclass(frozen=True, slots=True)
class MachineSpeed:
    """What one device was measured to do."""

    bytes_per_s: float
    """Read from memory, over a buffer far larger than the last cache."""
    flops_per_s: float
    """Of a large product in `dtype`; infinite where it is not known, so that only reading counts."""
    device: str
    dtype: str

    def quicker(self, other: MachineSpeed) -> MachineSpeed:
        """The better of both for each speed: the other measurement was disturbed."""
        return replace(
            self,
            bytes_per_s=max(self.bytes_per_s, other.bytes_per_s),
            flops_per_s=max(self.flops_per_s, other.flops_per_s),
        )


@dataclass(frozen=True, slots=True)
class ModelCost:
    """What a step of one (model, precision) has to do."""

    bytes_per_step: int
    """Moved for the weights, however many sequences decode; see core/memory_report."""
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


@dataclass(frozen=True, slots=True)
class ModelRoofline:
    """One model on one machine."""

    machine: MachineSpeed
    cost: ModelCost
    weight_bytes: int

    def share_reached(self, row: Mapping[str, Any]) -> float | None:
        """Bound over measured time of a token, both at what `row` had on average: sequences that decoded, and context.

        None where nothing was decoded.
        """
        if row["tpot_ms"] is None or not row["completed"]:
            return None
        batch = max(1, round(row["decoding"]))
        context = round((row["prompt_tokens"] + row["output_tokens"] / 2) / row["completed"])
        bound = predict_decode(self.machine, self.cost, batch=batch, context=context)
        return 1000 * bound.seconds / float(row["tpot_ms"]["p50"]) if row["tpot_ms"]["p50"] else None

    def document(self, points: Iterable[tuple[int, int]]) -> dict[str, Any]:
        """The `roofline` document over (batch, context) points."""
        return write_roofline(self.machine, self.cost, points, weight_bytes=self.weight_bytes)


def find_cost(info: ModelInfo) -> ModelCost | None:
    """What a step of a loaded model moves and multiplies; None while that is not known."""
    if not info.bytes_per_step or not info.num_parameters or not info.kv_bytes_per_token:
        return None
    return ModelCost(info.bytes_per_step, info.num_parameters, info.kv_bytes_per_token)


def write_roofline(
    machine: MachineSpeed, cost: ModelCost, points: Iterable[tuple[int, int]], *, weight_bytes: int
) -> dict[str, Any]:
    """The `roofline` document over (batch, context) points; milliseconds in `bound_ms`."""
    bounds = [predict_decode(machine, cost, batch=batch, context=context) for batch, context in points]
    return {
        "kind": "roofline",
        "device": machine.device,
        "dtype": machine.dtype,
        "bandwidth_bytes_per_s": machine.bytes_per_s,
        "flops_per_s": machine.flops_per_s if math.isfinite(machine.flops_per_s) else None,
        "weight_bytes": weight_bytes,
        "bytes_per_step": cost.bytes_per_step,
        "num_parameters": cost.num_parameters,
        "kv_bytes_per_token": cost.kv_bytes_per_token,
        "crossing_batch": find_crossing_batch(machine, cost),
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
