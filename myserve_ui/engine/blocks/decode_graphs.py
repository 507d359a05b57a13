"""Replays recorded decode steps: a step of a small model is quicker to compute than to launch, kernel by kernel.

A recording has fixed shapes and fixed addresses. So a batch of decode rows is filled up to the next size of a ladder
and written into buffers that stay where they are. A size is recorded when it is first met, which costs two plain steps;
recording all at load would make every start wait for sizes that most never need.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch

from myserve_ui.engine.blocks.layout import BatchInputs

logger = logging.getLogger(__name__)

SMALL_SIZES, STEP = (1, 2, 4), 8

Forward = Callable[[BatchInputs], torch.Tensor]
"""A step from its inputs to its logits, [num_rows, vocab_size]."""


class Recording(Protocol):
    """Work that was recorded; its result is always at the same place."""

    @property
    def output(self) -> torch.Tensor: ...

    def replay(self) -> None:
        """Do the work again with what its inputs hold now."""
        ...


class Recorder(Protocol):
    """What the device offers for recording."""

    def record(self, work: Callable[[], torch.Tensor]) -> Recording:
        """Record `work`, which may be run for it more than once. Raises RuntimeError if it cannot be recorded."""
        ...


class DecodeGraphs:
    """Recordings of `forward` by batch size, for up to `max_rows` rows whose tables have `width` blocks."""

    def __init__(self, forward: Forward, recorder: Recorder, *, max_rows: int) -> None:
        self.sizes = ladder(max_rows)
        self.is_broken = False
        """True once a recording failed: from then on every step is computed plainly."""
        self._forward = forward
        self._recorder = recorder
        self._recordings: dict[int, tuple[BatchInputs, Recording]] = {}
        self._version = 0

    def size_for(self, num_rows: int) -> int | None:
        """The size to fill a batch up to; None if it must be computed plainly."""
        return None if self.is_broken else next((size for size in self.sizes if size >= num_rows), None)

    def run(self, inputs: BatchInputs, *, num_rows: int, device: torch.device, version: int) -> torch.Tensor:
        """Logits [num_rows, vocab_size] of inputs on the host, filled up to a size of the ladder.

        The next run overwrites them. A new `version` says that the cache has moved: nothing recorded before holds.
        """
        if version != self._version:
            self._recordings.clear()
            self._version = version
        size = len(inputs.lengths)
        if size not in self._recordings:
            if (logits := self._record(inputs.to(device))) is not None:
                return logits[:num_rows]
        else:
            self._recordings[size][0].copy_from(inputs)
        recording = self._recordings[size][1]
        recording.replay()
        return recording.output[:num_rows]

    def _record(self, inputs: BatchInputs) -> torch.Tensor | None:
        """Keep a recording for inputs of this shape, or, if that cannot be, compute them plainly."""
        try:
            recording = self._recorder.record(lambda: self._forward(inputs))
        except RuntimeError as error:
            if isinstance(error, torch.OutOfMemoryError):
                raise
            logger.warning("Decode steps cannot be recorded on this device and are launched one by one: %s", error)
            self.is_broken = True
            self._recordings.clear()
            return self._forward(inputs)
        self._recordings[len(inputs.lengths)] = (inputs, recording)
        return None


def ladder(max_rows: int) -> tuple[int, ...]:
    """1, 2, 4, 8, 16, 24, … up to and with `max_rows`: at most 7 rows too many."""
    sizes = [*SMALL_SIZES, *range(STEP, max_rows, STEP)]
    return (*(size for size in sizes if size < max_rows), max_rows)


@dataclass(frozen=True, slots=True)
class CudaRecording:
    """A captured graph and where it leaves its result."""

    graph: torch.cuda.CUDAGraph
    output: torch.Tensor

    def replay(self) -> None:
        """Queue the work on the current stream; the program does not wait for it."""
        self.graph.replay()


class CudaRecorder:
    """Captures graphs that share one pool of memory, since only one of them runs at a time."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device)
        self._pool = torch.cuda.graph_pool_handle()

    def record(self, work: Callable[[], torch.Tensor]) -> CudaRecording:
        """Run `work` once, so that libraries set themselves up, then capture it without running it.

        Raises RuntimeError if something in it cannot be captured, such as waiting for the device.
        """
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.device(self._device):
            current = torch.cuda.current_stream()
            self._stream.wait_stream(current)
            with torch.cuda.stream(self._stream):  # outermost, so that a failed capture leaves the stream as well
                work()
                # other threads may use the device meanwhile: another engine, while it loads
                with torch.cuda.graph(graph, pool=self._pool, stream=self._stream, capture_error_mode="thread_local"):
                    output = work()
            current.wait_stream(self._stream)
        return CudaRecording(graph, output)
