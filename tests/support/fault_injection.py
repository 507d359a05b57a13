"""Wraps a runner so that chosen steps go wrong in chosen ways: how tests see what the engine does about it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import torch

from myserve_ui.engine.module.rotary_rule import RotaryRule
from myserve_ui.engine.rows.runner import Runner
from myserve_ui.engine.scheduler import ScheduledBatch, ScheduledChunk


class FaultKind(StrEnum):
    RAISE = "raise"
    OUT_OF_MEMORY = "out of memory"
    OUT_OF_CPU_MEMORY = "out of CPU memory"
    """The plain RuntimeError of torch's CPU allocator."""
    SLEEP = "sleep"
    NAN = "nan"
    """Logits that are not numbers."""


def _every_step(_step: int, _batch: ScheduledBatch) -> bool:
    return True


def _every_row(_chunk: ScheduledChunk) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that goes wrong."""

    kind: FaultKind
    when: Callable[[int, ScheduledBatch], bool] = _every_step
    """Given the step's number, 1 for the first under the wrapper, and its batch."""
    rows: Callable[[ScheduledChunk], bool] = _every_row
    """With NAN: the chunks whose logits are spoilt."""
    seconds: float = 0.0
    """With SLEEP: how long."""
    after: bool = False
    """Go wrong once the forward is done instead of before it."""


class FaultyRunner:
    """A runner that does what `runner` does, and what `faults` say.

    With `memory_tokens`, an allocation of more tokens than that, in all rows together, is out of memory, as on a device
    that is smaller than the engine believes.
    """

    def __init__(self, runner: Runner, faults: Sequence[Fault] = (), *, memory_tokens: int | None = None) -> None:
        self.runner = runner
        self.faults = list(faults)
        self.memory_tokens = memory_tokens
        self.steps = 0

    @property
    def kv_bytes_per_token(self) -> int:
        return self.runner.kv_bytes_per_token

    @property
    def rotary_rule(self) -> RotaryRule | None:
        return self.runner.rotary_rule

    def reserve(self, allocated: list[int]) -> None:
        if self.memory_tokens is not None and sum(allocated) > self.memory_tokens:
            raise torch.OutOfMemoryError(f"{sum(allocated)} tokens are allocated, and {self.memory_tokens} fit")
        self.runner.reserve(allocated)

    def trim(self, allocated: list[int]) -> None:
        self.reserve(allocated)
        self.runner.trim(allocated)

    @torch.inference_mode()
    def forward(self, batch: ScheduledBatch) -> torch.Tensor:
        self.steps += 1
        faults = [fault for fault in self.faults if fault.when(self.steps, batch)]
        for fault in faults:
            if not fault.after:
                _interrupt(fault)
        logits = self.runner.forward(batch)
        for fault in faults:
            if fault.kind is FaultKind.NAN:
                logits[_rows_of(batch, fault)] = float("nan")
            elif fault.after:
                _interrupt(fault)
        return logits


def step_is(*steps: int) -> Callable[[int, ScheduledBatch], bool]:
    """For `when`: these steps."""
    return lambda step, _batch: step in steps


def request_runs(*request_ids: str) -> Callable[[int, ScheduledBatch], bool]:
    """For `when`: steps in which one of these requests has a part."""
    return lambda _step, batch: any(chunk.sequence.request_id in request_ids for chunk in batch.chunks)


def _interrupt(fault: Fault) -> None:
    if fault.kind is FaultKind.SLEEP:
        time.sleep(fault.seconds)
    elif fault.kind is FaultKind.RAISE:
        raise RuntimeError("an injected failure")
    elif fault.kind is FaultKind.OUT_OF_MEMORY:
        raise torch.OutOfMemoryError("an injected lack of memory")
    elif fault.kind is FaultKind.OUT_OF_CPU_MEMORY:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes")


def _rows_of(batch: ScheduledBatch, fault: Fault) -> list[int]:
    """Indices of the logits that belong to the fault's chunks."""
    rows: list[int] = []
    end = 0
    for chunk in batch.chunks:
        end += chunk.num_logits
        if fault.rows(chunk):
            rows += range(end - chunk.num_logits, end)
    return rows
