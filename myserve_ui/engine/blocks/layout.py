"""Where the tokens of one forward belong in the blocks: what every layer's attention reads, as tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import torch

from myserve_ui.engine.blocks.tables import BLOCK_SIZE, SCRATCH, BlockTables, count_blocks
from myserve_ui.engine.device_copies import staged
from myserve_ui.engine.scheduler import ScheduledBatch


@dataclass(frozen=True, slots=True)
class BlockLayout:
    """Sequences of the batch, in the order of the flat row of tokens; tensors on one device, int32 but one."""

    slot_mapping: torch.Tensor  # [num_tokens] int64: place of each token among all tokens of a pool
    query_starts: torch.Tensor  # [num_seqs + 1] where each sequence's tokens begin in the flat row
    context_starts: torch.Tensor  # [num_seqs + 1] sums of the contexts
    contexts: torch.Tensor  # [num_seqs] tokens that the last query of each sequence attends over, itself included
    block_table: torch.Tensor  # [num_seqs, width]
    lengths: tuple[int, ...]
    """Queries of each sequence, on the host."""
    max_context: int
    """No context is longer; on the host."""

    @property
    def max_length(self) -> int:
        return max(self.lengths)

    def on(self, device: torch.device) -> BlockLayout:
        """The same on the device of a layer."""
        if device == self.contexts.device:
            return self
        return replace(
            self,
            slot_mapping=self.slot_mapping.to(device),
            query_starts=self.query_starts.to(device),
            context_starts=self.context_starts.to(device),
            contexts=self.contexts.to(device),
            block_table=self.block_table.to(device),
        )


@dataclass(frozen=True, slots=True)
class BatchInputs:
    """All that one forward is given, as two tensors, so that two copies bring it to the device."""

    tokens: torch.Tensor  # [3, num_tokens] int64: token ids, positions, slot mapping
    sequences: torch.Tensor  # int32, one after the other: query starts, context starts, contexts, block table
    lengths: tuple[int, ...]
    max_context: int

    def to(self, device: torch.device) -> BatchInputs:
        """The same on `device`, without waiting for the copies."""
        tokens = self.tokens.to(device, non_blocking=True)
        return replace(self, tokens=tokens, sequences=self.sequences.to(device, non_blocking=True))

    def copy_from(self, other: BatchInputs) -> None:
        """Overwrite the tensors with those of inputs of the same shape, without waiting."""
        self.tokens.copy_(other.tokens, non_blocking=True)
        self.sequences.copy_(other.sequences, non_blocking=True)

    @property
    def layout(self) -> BlockLayout:
        """Views of the tensors by their meaning."""
        count = len(self.lengths)
        parts = self.sequences.split([count + 1, count + 1, count, len(self.sequences) - 3 * count - 2])
        return BlockLayout(
            slot_mapping=self.tokens[2],
            query_starts=parts[0],
            context_starts=parts[1],
            contexts=parts[2],
            block_table=parts[3].view(count, -1),
            lengths=self.lengths,
            max_context=self.max_context,
        )


def stage_inputs(batch: ScheduledBatch, tables: BlockTables, *, device: torch.device) -> BatchInputs:
    """The batch as it is, on the host; to be copied to `device`."""
    contexts = [chunk.start + chunk.length for chunk in batch.chunks]
    rows = [list(tables[chunk.slot]) for chunk in batch.chunks]
    tokens = [
        [token_id for chunk in batch.chunks for token_id in chunk.token_ids],
        [index for chunk in batch.chunks for index in range(chunk.start, chunk.start + chunk.length)],
        [
            tables.place(chunk.slot, index)
            for chunk in batch.chunks
            for index in range(chunk.start, chunk.start + chunk.length)
        ],
    ]
    lengths = tuple(chunk.length for chunk in batch.chunks)
    numbers = _Numbers(tokens, lengths, contexts, rows)
    return numbers.stage(count_blocks(max(contexts)), max(contexts), device)


def stage_padded_inputs(
    batch: ScheduledBatch, tables: BlockTables, *, num_rows: int, width: int, device: torch.device
) -> BatchInputs:
    """A batch of decode rows, filled up to `num_rows`, with tables of `width` blocks: shapes that no batch changes.

    A row that only fills up is token 0 at position 0 of the scratch block, and attends over itself.
    """
    filling = num_rows - len(batch.chunks)
    tokens = [
        [chunk.token_ids[0] for chunk in batch.chunks] + [0] * filling,
        [chunk.start for chunk in batch.chunks] + [0] * filling,
        [tables.place(chunk.slot, chunk.start) for chunk in batch.chunks] + [SCRATCH * BLOCK_SIZE] * filling,
    ]
    contexts = [chunk.start + 1 for chunk in batch.chunks] + [1] * filling
    rows = [list(tables[chunk.slot]) for chunk in batch.chunks] + [[SCRATCH]] * filling
    return _Numbers(tokens, (1,) * num_rows, contexts, rows).stage(width, width * BLOCK_SIZE, device)


@dataclass(frozen=True, slots=True)
class _Numbers:
    tokens: Sequence[Sequence[int]]
    lengths: tuple[int, ...]
    contexts: Sequence[int]
    rows: Sequence[list[int]]

    def stage(self, width: int, max_context: int, device: torch.device) -> BatchInputs:
        filled = [(row + [SCRATCH] * width)[:width] for row in self.rows]
        sequences = [
            *accumulate(self.lengths, initial=0),
            *accumulate(self.contexts, initial=0),
            *self.contexts,
            *(block for row in filled for block in row),
        ]
        flat = [number for row in self.tokens for number in row]
        return BatchInputs(
            staged(flat, torch.long, device).view(3, -1),
            staged(sequences, torch.int32, device),
            self.lengths,
            max_context,
        )
