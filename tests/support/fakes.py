"""Scripted stand-ins: a runner that says what it is told, and a clock that moves when it is told."""

from collections.abc import Callable, Sequence

import torch

from myserve_ui.engine.scheduler import ScheduledBatch, ScheduledChunk

VOCAB_SIZE = 300


class FakeClock:
    """A clock for the engine; `advance` moves it."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


class ScriptedRunner:
    """Makes each sequence say the ids of its script, one a step; records every batch."""

    kv_bytes_per_token = 100
    rotary_rule = None

    def __init__(self, script: Callable[[ScheduledChunk], int]) -> None:
        self._script = script
        self.batches: list[ScheduledBatch] = []
        self.before_forward: Callable[[int], None] = lambda _step: None
        """Called with the number of the step, to raise or to wait."""

    def reserve(self, allocated: list[int]) -> None:
        self.allocated = allocated

    def trim(self, allocated: list[int]) -> None:
        self.allocated = allocated

    def forward(self, batch: ScheduledBatch) -> torch.Tensor:
        self.batches.append(batch)
        self.before_forward(len(self.batches))
        logits = torch.zeros(batch.num_logits, VOCAB_SIZE)
        for row, chunk in zip(batch.sampling_rows, batch.sampling, strict=True):
            logits[row, self._script(chunk)] = 10.0
        return logits


def says(*token_ids: int) -> Callable[[ScheduledChunk], int]:
    """A script that gives these ids in turn, then the last again and again."""
    return lambda chunk: token_ids[min(chunk.sequence.num_output_tokens, len(token_ids) - 1)]


def decode_bytes(token_ids: Sequence[int]) -> str:
    """Ids as bytes of UTF-8."""
    return bytes(token_id for token_id in token_ids if token_id < 256).decode(errors="replace")
