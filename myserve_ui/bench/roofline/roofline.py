"""How fast a decode step could be: the larger of the time to read what it reads and the time to multiply."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from myserve_ui.bench.roofline.documents import Ceiling, Roofline, Room
from myserve_ui.bench.summary import Summary
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

    @property
    def ridge(self) -> float:
        """Operations per byte moved, above which arithmetic is the limit."""
        return self.flops_per_s / self.bytes_per_s if self.bytes_per_s else math.inf

    def roof(self, intensity: float) -> float:
        """Operations a second at most, with so many of them per byte moved."""
        return min(self.flops_per_s, intensity * self.bytes_per_s)

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

    def operations(self, tokens: float) -> float:
        return 2 * self.num_parameters * tokens

    def intensity(self, tokens: float, *, cached: float) -> float:
        """Operations for each byte, of a step over `tokens` that reads or writes `cached` tokens of the cache."""
        return self.operations(tokens) / (self.bytes_per_step + cached * self.kv_bytes_per_token)


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
        compute_seconds=cost.operations(batch) / machine.flops_per_s,
    )


def find_crossing_batch(machine: MachineSpeed, cost: ModelCost, *, context: int = 0) -> int | None:
    """The smallest batch whose step is bound by arithmetic; None if reading keys and values always takes longer."""
    per_sequence = cost.operations(1) / machine.flops_per_s
    per_sequence -= context * cost.kv_bytes_per_token / machine.bytes_per_s
    if per_sequence <= 0:
        return None
    return math.floor(cost.bytes_per_step / machine.bytes_per_s / per_sequence) + 1


def count_sequences_that_fit(free_bytes: int, kv_bytes_per_token: int, length: int) -> int:
    """Sequences of `length` tokens whose keys and values fit into `free_bytes`."""
    return max(0, free_bytes) // (kv_bytes_per_token * length)


def room_for(free_bytes: int, kv_bytes_per_token: int, lengths: Iterable[int]) -> tuple[Room, ...]:
    """The same for each of `lengths`, as it is written down."""
    return tuple(
        Room(length=length, sequences=count_sequences_that_fit(free_bytes, kv_bytes_per_token, length))
        for length in lengths
    )


@dataclass(frozen=True, slots=True)
class ModelRoofline:
    """One model on one machine."""

    machine: MachineSpeed
    cost: ModelCost
    weight_bytes: int

    @classmethod
    def of(cls, document: Roofline) -> ModelRoofline:
        """What `document` was written from."""
        rate = math.inf if document.flops_per_s is None else document.flops_per_s
        machine = MachineSpeed(document.bandwidth_bytes_per_s, rate, document.device, document.dtype)
        cost = ModelCost(document.bytes_per_step, document.num_parameters, document.kv_bytes_per_token)
        return cls(machine, cost, document.weight_bytes)

    def share_reached(self, summary: Summary) -> float | None:
        """Bound over measured time of a token, both at what was decoded on average: sequences at a time, and context.

        None where nothing was decoded.
        """
        if summary.tpot_ms is None or not summary.completed or not summary.tpot_ms.p50:
            return None
        batch = max(1, round(summary.decoding))
        context = round((summary.prompt_tokens + summary.output_tokens / 2) / summary.completed)
        bound = predict_decode(self.machine, self.cost, batch=batch, context=context)
        return 1000 * bound.seconds / summary.tpot_ms.p50

    def document(self, points: Iterable[tuple[int, int]]) -> Roofline:
        """The document over (batch, context) points."""
        bounds = [predict_decode(self.machine, self.cost, batch=batch, context=context) for batch, context in points]
        return Roofline(
            device=self.machine.device,
            dtype=self.machine.dtype,
            bandwidth_bytes_per_s=self.machine.bytes_per_s,
            flops_per_s=self.machine.flops_per_s if math.isfinite(self.machine.flops_per_s) else None,
            weight_bytes=self.weight_bytes,
            bytes_per_step=self.cost.bytes_per_step,
            num_parameters=self.cost.num_parameters,
            kv_bytes_per_token=self.cost.kv_bytes_per_token,
            crossing_batch=find_crossing_batch(self.machine, self.cost),
            rows=tuple(map(_ceiling, bounds)),
        )


def find_cost(info: ModelInfo) -> ModelCost | None:
    """What a step of a loaded model moves and multiplies; None while that is not known."""
    if not info.bytes_per_step or not info.num_parameters or not info.kv_bytes_per_token:
        return None
    return ModelCost(info.bytes_per_step, info.num_parameters, info.kv_bytes_per_token)


def _ceiling(bound: DecodeBound) -> Ceiling:
    return Ceiling(
        batch=bound.batch,
        context=bound.context,
        bound_ms=1000 * bound.seconds,
        tokens_per_s=bound.tokens_per_second,
        bound_by="memory" if bound.is_bound_by_memory else "arithmetic",
    )
