"""Runs one step's tokens through the transformers module and returns the logits that are needed."""

from __future__ import annotations

from typing import Protocol

import torch

from myserve_ui.engine.module.call import ModuleCall
from myserve_ui.engine.module.rotary_rule import RotaryRule
from myserve_ui.engine.rows.attention import (
    ATTENTION_NAME,
    FEW_THREADS,
    AttentionBatch,
    PromptChunk,
    is_quick_in_loop,
    register_attention,
)
from myserve_ui.engine.rows.kv_cache import KVCache
from myserve_ui.engine.scheduler import ScheduledBatch
from myserve_ui.kernels.row_ladder import RowLadder


class Runner(Protocol):
    """What the engine needs of whatever computes logits."""

    def forward(self, batch: ScheduledBatch) -> torch.Tensor:
        """Logits [batch.num_logits, vocab_size] in float32: of each chunk's last token, or of all if it is scored."""
        ...

    def reserve(self, allocated: list[int]) -> None:
        """Make room for `allocated[slot]` tokens in each row of the cache, before the forward that needs them."""
        ...

    def trim(self, allocated: list[int]) -> None:
        """The same, after a lack of memory: keep no more than that."""
        ...

    @property
    def kv_bytes_per_token(self) -> int: ...

    @property
    def rotary_rule(self) -> RotaryRule | None:
        """How rotary frequencies depend on a sequence's length, if they do."""
        ...


class ModelRunner:
    """Owns the cache of one module and feeds the module flat batches.

    `module` is a transformers causal language model in eval mode whose attention goes through AttentionInterface.
    """

    def __init__(self, module: torch.nn.Module, *, num_slots: int, max_len: int) -> None:
        register_attention()
        self.module = module
        self.num_slots = num_slots
        self.dtype: torch.dtype = module.dtype  # type: ignore[assignment]
        self.cache = KVCache(num_slots, max_len)
        self.device = module.get_input_embeddings().weight.device  # type: ignore[operator]
        self.has_loops = self.device.type == "cpu" and self.dtype is torch.float32
        """Whether compiled loops may stand for torch's operations where they are quicker."""
        self.token_ladder, self.logit_ladder = RowLadder(), RowLadder()
        """How far batches are filled up, so that every token of a step and every row of logits comes out the same."""
        self.call = ModuleCall(module, ATTENTION_NAME)

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
        for slot in batch.clears:
            self.cache.clear_row(slot)
        for copy in batch.copies:
            self.cache.copy_row(copy.source, copy.target, copy.length)
        token_ids = [token_id for chunk in batch.chunks for token_id in chunk.token_ids]
        logit_rows = batch.logit_rows
        attention = self._attention_batch(batch)
        row_batch = attention if attention.suits_rows(torch.get_num_threads()) else None
        tokens = torch.tensor([_filled(token_ids, self.token_ladder)], device=self.device), attention.positions[None]
        keep = torch.tensor(_filled(logit_rows, self.logit_ladder), dtype=torch.long, device=self.device)
        with self.call.rotating(batch):
            logits = self.call.logits(attention, tokens, keep, row_batch=row_batch)
        return logits[: len(logit_rows)]  # [num_logits, vocab_size]

    def _attention_batch(self, batch: ScheduledBatch) -> AttentionBatch:
        positions = [chunk.start + offset for chunk in batch.chunks for offset in range(chunk.length)]
        decodes = [chunk for chunk in batch.chunks if chunk.length == 1]
        contexts = [chunk.start + 1 for chunk in decodes]
        num_threads = torch.get_num_threads()
        return AttentionBatch(
            cache=self.cache,
            positions=torch.tensor(_filled(positions, self.token_ladder), device=self.device),
            decode_slots=[chunk.slot for chunk in decodes],
            decode_contexts=contexts,
            chunks=_prompt_chunks(batch),
            sights=self.call.masks.sights,
            temperatures=self.call.temperatures,
            in_loop=self.has_loops and is_quick_in_loop(contexts, num_threads),
            whole_in_loop=self.has_loops and num_threads <= FEW_THREADS,
            num_threads=num_threads,
        )


def _filled(numbers: list[int], ladder: RowLadder) -> list[int]:
    """`numbers`, and as many zeros as the ladder wants; none stay none."""
    return numbers + [0] * (ladder.fit(len(numbers)) - len(numbers)) if numbers else numbers


def _prompt_chunks(batch: ScheduledBatch) -> list[PromptChunk]:
    chunks, first = [], 0
    for chunk in batch.chunks:
        if chunk.length > 1:
            chunks.append(PromptChunk(first, first + chunk.length, chunk.slot, chunk.start))
        first += chunk.length
    return chunks
