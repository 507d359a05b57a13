"""Attention over blocks in plain torch: the reference on every device, and the way out for what a kernel lacks.

Gathers each sequence's blocks first, so it moves every key and value twice more than a paged kernel.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from myserve_ui.engine.blocks.cache import LayerBlocks
from myserve_ui.engine.blocks.layout import BlockLayout
from myserve_ui.engine.blocks.tables import count_blocks
from myserve_ui.kernels.attention_formula import AttentionStyle, attend_folded


@dataclass(frozen=True, slots=True)
class _Gathered:
    """Some sequences' keys and values, [rows, kv_heads, context, dim], and what each query sees of them."""

    keys: torch.Tensor
    values: torch.Tensor
    visible: torch.Tensor  # [rows, 1, length, context]


class PlainKernel:
    """A call for all decode rows together, one for each chunk of a prompt."""

    def suits(self, queries: torch.Tensor, layer: LayerBlocks, style: AttentionStyle) -> bool:
        return True

    def attend(
        self, queries: torch.Tensor, layer: LayerBlocks, layout: BlockLayout, style: AttentionStyle
    ) -> torch.Tensor:
        """[num_tokens, heads, head_dim] -> [num_tokens, heads, value_dim]."""
        parts, first = [], 0
        for rows in _equal_lengths(layout.lengths):
            length = layout.lengths[rows.start]
            last = first + len(rows) * length
            gathered = _gather(layer, layout, rows, style)
            spread = queries[first:last].unflatten(0, (len(rows), length)).transpose(1, 2)
            parts.append(_attend(spread, gathered, style).transpose(1, 2).flatten(0, 1))
            first = last
        return torch.cat(parts)


def _equal_lengths(lengths: tuple[int, ...]) -> Iterator[range]:
    """Ranges of sequences that go into one call: neighbours of one query each, and every other by itself."""
    start = 0
    for index, length in enumerate(lengths):
        following = lengths[index + 1] if index + 1 < len(lengths) else None
        if not length == following == 1:
            yield range(start, index + 1)
            start = index + 1


def _gather(layer: LayerBlocks, layout: BlockLayout, rows: range, style: AttentionStyle) -> _Gathered:
    length, context = layout.lengths[rows.start], layout.max_context
    table = layout.block_table[rows.start : rows.stop, : count_blocks(context)]
    contexts = layout.contexts[rows.start : rows.stop, None]  # [rows, 1]
    columns = torch.arange(context, device=table.device)
    positions = contexts - length + torch.arange(length, device=table.device)  # [rows, length]
    visible = columns <= positions[..., None]
    if style.window is not None or style.chunk is not None:
        visible &= columns >= style.first_seen(positions)[..., None]
    beyond = (columns >= contexts)[..., None, None]  # what lies there may be anything, and NaN survives a mask
    keys = layer.keys[table].flatten(1, 2)[:, :context].masked_fill(beyond, 0.0)
    values = layer.values[table].flatten(1, 2)[:, :context].masked_fill(beyond, 0.0)
    return _Gathered(keys.transpose(1, 2), values.transpose(1, 2), visible[:, None])


def _attend(queries: torch.Tensor, gathered: _Gathered, style: AttentionStyle) -> torch.Tensor:
    """[rows, heads, length, head_dim] -> [rows, heads, length, value_dim]."""
    rows, heads, length, head_dim = queries.shape
    folded = queries.reshape(rows, gathered.keys.shape[1], -1, head_dim)  # heads of a group follow each other
    mask = gathered.visible.repeat(1, 1, folded.shape[2] // length, 1)
    attended = attend_folded(folded, gathered.keys, gathered.values, mask, style)
    return attended.reshape(rows, heads, length, -1)
