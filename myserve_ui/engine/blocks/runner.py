"""Runs one step's tokens through the module with keys and values in blocks: the runner for CUDA.

Batches of decode rows alone are replayed from recordings where the device can; all others are launched as they come.
Nothing here waits for the device: the first to do so is whoever reads the sampled ids.
"""

from __future__ import annotations

import torch

from myserve_ui.engine.blocks.attention import ATTENTION_NAME, BlockBatch, BlockKernel, register_block_attention
from myserve_ui.engine.blocks.cache import BlockCache
from myserve_ui.engine.blocks.decode_graphs import DecodeGraphs, Recorder
from myserve_ui.engine.blocks.layout import BatchInputs, stage_inputs, stage_padded_inputs
from myserve_ui.engine.device_copies import to_device
from myserve_ui.engine.module.call import ModuleCall
from myserve_ui.engine.module.rotary_rule import RotaryRule
from myserve_ui.engine.scheduler import ScheduledBatch


class BlockRunner:
    """Owns the blocks of one module and feeds the module flat batches.

    `module` is a transformers causal language model in eval mode whose attention goes through AttentionInterface.
    Without a `recorder` no step is recorded.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        kernel: BlockKernel,
        *,
        num_slots: int,
        max_len: int,
        recorder: Recorder | None = None,
    ) -> None:
        register_block_attention()
        self.module = module
        self.kernel = kernel
        self.num_slots = num_slots
        self.dtype: torch.dtype = module.dtype  # type: ignore[assignment]
        self.cache = BlockCache(num_slots, max_len)
        self.device = module.get_input_embeddings().weight.device  # type: ignore[operator]
        self.call = ModuleCall(module, ATTENTION_NAME)
        # Which frequencies a row gets is decided on the host, where a recording decides nothing.
        if self.rotary_rule is not None:
            recorder = None
        self.graphs = None if recorder is None else DecodeGraphs(self._decode, recorder, max_rows=num_slots)
        self._plain_layers: set[int] = set()

    @property
    def rotary_rule(self) -> RotaryRule | None:
        return self.call.rotary_rule

    @property
    def kv_bytes_per_token(self) -> int:
        return self.cache.bytes_per_token

    def reserve(self, allocated: list[int]) -> None:
        self.cache.reserve(allocated)

    def trim(self, allocated: list[int]) -> None:
        self.cache.trim(allocated)

    @torch.inference_mode()
    def forward(self, batch: ScheduledBatch) -> torch.Tensor:
        # nothing to clear: no kernel reads what lies beyond a context
        for copy in batch.copies:
            self.cache.copy_row(copy.source, copy.target, copy.length)
        size = self._size_to_replay(batch)
        if size is None or self.graphs is None:
            inputs = stage_inputs(batch, self.cache.tables, device=self.device).to(self.device)
            with self.call.rotating(batch):
                return self._run(inputs, to_device(batch.logit_rows, torch.long, self.device))
        width = self.cache.max_blocks_per_row
        inputs = stage_padded_inputs(batch, self.cache.tables, num_rows=size, width=width, device=self.device)
        return self.graphs.run(inputs, num_rows=len(batch.chunks), device=self.device, version=self.cache.version)

    def _size_to_replay(self, batch: ScheduledBatch) -> int | None:
        """Rows of the recording that does for `batch`, or None.

        Layers must be known, in one place, and served by a kernel that reads its lengths on the device.
        """
        if self.graphs is None or self._plain_layers or self.cache.devices != {self.device}:
            return None
        if any(chunk.length > 1 or chunk.num_logits != 1 or chunk.scored for chunk in batch.chunks):
            return None
        return self.graphs.size_for(len(batch.chunks))

    def _decode(self, inputs: BatchInputs) -> torch.Tensor:
        """Logits of every token."""
        return self._run(inputs, 0)

    def _run(self, inputs: BatchInputs, logits_to_keep: torch.Tensor | int) -> torch.Tensor:
        attention = BlockBatch(
            self.cache,
            inputs.layout,
            self.kernel,
            positions=inputs.tokens[1],
            sights=self.call.masks.sights,
            temperatures=self.call.temperatures,
        )
        logits = self.call.logits(attention, (inputs.tokens[:1], inputs.tokens[1:2]), logits_to_keep)
        self._plain_layers |= attention.plain_layers
        return logits  # [num_logits, vocab_size]
