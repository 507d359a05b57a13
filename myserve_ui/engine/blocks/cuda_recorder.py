"""Records work on a CUDA device as a CUDA graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch


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
