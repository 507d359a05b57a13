"""The runner for CUDA, on the CPU: a plain kernel, blocks full of NaN until they are written, recordings that run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from myserve_ui.engine.blocks.cache import BlockCache, LayerBlocks
from myserve_ui.engine.blocks.decode_graphs import Recorder
from myserve_ui.engine.blocks.plain_kernel import PlainKernel
from myserve_ui.engine.blocks.runner import BlockRunner


class PoisonedCache(BlockCache):
    """Gives blocks full of NaN: whoever reads what was not written for him computes NaN."""

    @torch.inference_mode()
    def reserve(self, allocated: Sequence[int]) -> None:
        before = [len(self.tables[slot]) for slot in range(self.tables.num_slots)]
        super().reserve(allocated)
        self.tables.check()
        given = [block for slot, count in enumerate(before) for block in self.tables[slot][count:]]
        for layer in self._layers.values():
            layer.keys[given] = torch.nan
            layer.values[given] = torch.nan

    def layer(self, index: int, key: torch.Tensor, value: torch.Tensor) -> LayerBlocks:
        is_new = index not in self._layers
        layer = super().layer(index, key, value)
        if is_new:
            layer.keys.fill_(torch.nan)
            layer.values.fill_(torch.nan)
        return layer


@dataclass
class ReplayedWork:
    """Work that is simply done again, its result copied to where the first one was."""

    work: Callable[[], torch.Tensor]
    output: torch.Tensor
    replays: int = 0

    def replay(self) -> None:
        self.replays += 1
        self.output.copy_(self.work())


class ReplayingRecorder:
    """Records by remembering. Like a device, it lets the work run before it is replayed."""

    def __init__(self) -> None:
        self.recordings: list[ReplayedWork] = []

    def record(self, work: Callable[[], torch.Tensor]) -> ReplayedWork:
        self.recordings.append(ReplayedWork(work, torch.full_like(work(), torch.nan)))
        return self.recordings[-1]


class RefusingRecorder:
    """A device on which every recording fails."""

    def __init__(self, error: RuntimeError) -> None:
        self.error = error
        self.calls = 0

    def record(self, work: Callable[[], torch.Tensor]) -> ReplayedWork:
        self.calls += 1
        work()
        raise self.error


def block_runner(module: torch.nn.Module, *, num_slots: int = 4, recorder: Recorder | None = None) -> BlockRunner:
    """A runner over poisoned blocks for rows of up to 512 tokens."""
    runner = BlockRunner(module, PlainKernel(), num_slots=num_slots, max_len=512, recorder=recorder)
    runner.cache = PoisonedCache(num_slots, 512)
    return runner
