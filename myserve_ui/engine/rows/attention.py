"""The attention function that the transformers module calls: writes keys and values into rows, attends over rows.

The batch is one flat row of tokens, [1, num_tokens], with tokens that only fill it up at its end. In float32 on a CPU
all tokens attend in one compiled loop, each in the same order of sums wherever it comes: alone or beside others, in a
chunk of a prompt or one at a time. Elsewhere decode rows (one new token each) attend in one masked call over
neighbouring rows of the cache, and each chunk of a prompt in a call of its own; grouped-query heads are folded into the
query length, [rows, kv_heads, group * length, head_dim], so that keys and values are never repeated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from transformers import AttentionInterface

from myserve_ui.engine.module.current_batch import current_batch
from myserve_ui.engine.module.positions import Temperature
from myserve_ui.engine.rows.kv_cache import KVCache, LayerCache
from myserve_ui.kernels.attention_formula import (
    AttentionStyle,
    Sight,
    attend_by_products,
    attend_folded,
    read_style,
)
from myserve_ui.kernels.row_attention import attend_rows, write_rows
from myserve_ui.kernels.row_loops import UNBOUNDED

ATTENTION_NAME = "myserve_rows"
SPARSE = 2
"""A shared call over the rows from the first to the last is made if at most this many times the rows are spanned."""

FEW_THREADS = 2
"""A loop on one thread is as quick as torch's operations on so many."""
FEW_CONTEXTS, FEW_ROWS = 2048, 64
"""On more threads still, for so many tokens of context in all, and for so many tokens between products."""

LONG_LOOP = 1024
"""Tokens of context in all from which several threads are quicker than one; 60 us for 9 heads of 64."""


def is_quick_in_loop(contexts: Sequence[int], num_threads: int) -> bool:
    """Whether one thread attends over decode rows of these contexts sooner than products on all of them."""
    return num_threads <= FEW_THREADS or sum(contexts) <= FEW_CONTEXTS


@dataclass(frozen=True, slots=True)
class PromptChunk:
    """Tokens [first, last) of the flat row: positions [start, start + last - first) of the sequence in `slot`."""

    first: int
    last: int
    slot: int
    start: int

    @property
    def context(self) -> int:
        return self.start + self.last - self.first


@dataclass(slots=True)
class AttentionBatch:
    """Where each token of one forward belongs."""

    cache: KVCache
    positions: torch.Tensor  # [num_tokens] column of each token
    decode_slots: Sequence[int]
    """Rows of the decode tokens, which are the first tokens of the batch; ascending."""
    decode_contexts: Sequence[int]
    """Tokens that each decode row attends over, its new one included."""
    chunks: Sequence[PromptChunk] = ()
    in_loop: bool = False
    """Whether a loop is quickest for the decode rows; only in float32 on a CPU."""
    whole_in_loop: bool = False
    """Whether the chunks go through it too, so that a token comes out the same wherever it comes."""
    num_threads: int = 1
    """Who share the loop where it would take long."""
    sights: Mapping[int, Sight] = field(default_factory=dict)
    """What each layer lets a token see, by its number."""
    temperatures: Mapping[int, Temperature] = field(default_factory=dict)
    _row_places: np.ndarray | None = None  # [tokens, 2]
    _places: dict[tuple[object, ...], torch.Tensor] = field(default_factory=dict)
    _masks: dict[tuple[object, ...], torch.Tensor] = field(default_factory=dict)

    @property
    def num_tokens(self) -> int:
        """Tokens of sequences; those that only fill up the batch come after them."""
        return self.chunks[-1].last if self.chunks else len(self.decode_slots)

    def suits_rows(self, num_threads: int) -> bool:
        """Whether a layer computes sooner in loops than in torch's operations, all but its products."""
        return self.in_loop and (num_threads <= FEW_THREADS or len(self.positions) <= FEW_ROWS)

    def attend_rows(self, layer: int, heads: np.ndarray, num_kv_heads: int, style: tuple[float, int]) -> np.ndarray:
        """Attention of one layer over the whole batch, as kernels/row_loops.py has it."""
        if self.whole_in_loop or not self.chunks:
            return self.attend_in_loop(layer, heads, num_kv_heads, style)
        num_heads = heads.shape[1] - 2 * num_kv_heads
        queries, keys, values = torch.from_numpy(heads).split((num_heads, num_kv_heads, num_kv_heads), dim=1)
        scaling, window = style
        own = AttentionStyle(scaling, None if window == UNBOUNDED else window)
        attended = _attend_tokens(layer, (queries, keys.transpose(0, 1), values.transpose(0, 1)), self, own)
        return attended.flatten(1).numpy()

    def attend_in_loop(self, layer: int, heads: np.ndarray, num_kv_heads: int, style: tuple[float, int]) -> np.ndarray:
        """The same of as many tokens as `heads` has, in the loop. Nothing is seen by those that only fill up."""
        if (rows := self.cache.layers.get(layer)) is None:
            key = torch.from_numpy(heads[:, -num_kv_heads:]).transpose(0, 1)
            rows = self.cache.layer(layer, key, key)
        places = self._find_row_places()[: len(heads)]
        own, cached = heads[: len(places)], (rows.keys.numpy(), rows.values.numpy())
        write_rows(own, *cached, places)
        threads = self.num_threads if places[:, 1].sum() >= LONG_LOOP else 1
        attended = attend_rows(own, cached, places, style, num_threads=threads)
        if len(own) == len(heads):
            return attended
        return np.concatenate((attended, np.zeros((len(heads) - len(own), attended.shape[1]), np.float32)))

    def _find_row_places(self) -> np.ndarray:
        """Slot and position of each token of a sequence, [tokens, 2]; of the decode rows if they alone are in loops."""
        if self._row_places is None:
            places = [
                (slot, context - 1) for slot, context in zip(self.decode_slots, self.decode_contexts, strict=True)
            ]
            if self.whole_in_loop:
                places += [(chunk.slot, at) for chunk in self.chunks for at in range(chunk.start, chunk.context)]
            self._row_places = np.array(places, np.int64)
            slots, positions = self._row_places.max(axis=0)
            assert positions < self.cache.capacity and slots < self.cache.num_slots
        return self._row_places

    def decode_places(self, layer: LayerCache) -> torch.Tensor:
        """Where the decode tokens go in `layer`, [kv_heads, num_decodes]."""
        key = (*layer.keys.shape[1:3], layer.keys.device)
        if key not in self._places:
            slots = torch.tensor(self.decode_slots, device=layer.keys.device)
            positions = self.positions[: len(self.decode_slots)].to(layer.keys.device)
            self._places[key] = layer.find_places(slots, positions)
        return self._places[key]

    def decode_mask(self, slots: range, style: AttentionStyle, num_heads: int, like: torch.Tensor) -> torch.Tensor:
        """Additive mask [rows, num_heads, 1, context] of the decode rows in `slots`; the others see column 0."""
        key = ("decode", slots.start, slots.stop, style.window, style.chunk, num_heads, like.dtype, like.device)
        if key not in self._masks:
            contexts = torch.ones(len(slots), 1, dtype=torch.long)
            for slot, context in zip(self.decode_slots, self.decode_contexts, strict=True):
                if slot in slots:
                    contexts[slot - slots.start] = context
            columns = torch.arange(max(self.decode_contexts))[None]
            visible = (columns < contexts) & (columns >= style.first_seen(contexts - 1))
            self._masks[key] = _additive(visible, like)[:, None, None].repeat(1, num_heads, 1, 1)
        return self._masks[key]

    def chunk_mask(self, chunk: PromptChunk, style: AttentionStyle, group: int, like: torch.Tensor) -> torch.Tensor:
        """Additive causal mask [group * length, context] of one prompt chunk."""
        key = ("chunk", chunk, style.window, style.chunk, group, like.dtype, like.device)
        if key not in self._masks:
            rows = torch.arange(chunk.start, chunk.context)[:, None]
            columns = torch.arange(chunk.context)[None]
            visible = (columns <= rows) & (columns >= style.first_seen(rows))
            self._masks[key] = _additive(visible, like).repeat(group, 1)
        return self._masks[key]


def register_attention() -> None:
    """Make the attention function known to transformers under ATTENTION_NAME; no mask function goes with it."""
    AttentionInterface.register(ATTENTION_NAME, attend)


def attend(
    module: torch.nn.Module,
    query: torch.Tensor,  # [1, heads, num_tokens, head_dim]
    key: torch.Tensor,  # [1, kv_heads, num_tokens, head_dim]
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """Attention of one layer over the whole batch; returns [1, num_tokens, heads, head_dim].

    `options` are what the model gives its attention: scaling, sliding_window, softcap, s_aux (sinks).
    """
    batch, index = current_batch(), int(module.layer_idx)  # type: ignore[arg-type]
    assert isinstance(batch, AttentionBatch)
    queries = query[0].transpose(0, 1)
    if (temperature := batch.temperatures.get(index)) is not None:
        queries = temperature.tuned(queries, batch.positions)
    style = read_style(batch.sights.get(index), **options)
    attended = _attend_tokens(index, (queries, key[0], value[0]), batch, style)
    return attended[None].contiguous(), None  # some families take a view of it, which a lone chunk's is not


def _attend_tokens(
    index: int, parts: tuple[torch.Tensor, torch.Tensor, torch.Tensor], batch: AttentionBatch, style: AttentionStyle
) -> torch.Tensor:  # [num_tokens, heads, head_dim]
    """Queries [num_tokens, heads, head_dim], keys and values [kv_heads, num_tokens, head_dim] of one layer."""
    queries, keys, values = parts
    is_for_loop = style.suits_loop and keys.shape == values.shape and keys.dtype is torch.float32
    if batch.whole_in_loop and is_for_loop:
        return _attend_in_loop(index, parts, batch, style)
    layer = batch.cache.layer(index, keys, values)
    attended = []
    if num_decodes := len(batch.decode_slots):
        own = (queries[:num_decodes], keys[:, :num_decodes], values[:, :num_decodes])
        if batch.in_loop and is_for_loop:
            attended.append(_attend_in_loop(index, own, batch, style))
        else:
            layer.write_tokens(batch.decode_places(layer), *own[1:])
            attended.append(_attend_decode(own[0], layer, batch, style))
    for chunk in batch.chunks:
        span = slice(chunk.first, chunk.last)
        layer.write_span(chunk.slot, chunk.start, keys[:, span], values[:, span])
        attended.append(_attend_chunk(queries[span], layer, batch, chunk, style))
    if filling := len(queries) - batch.num_tokens:
        attended.append(attended[0].new_zeros(filling, *attended[0].shape[1:]))
    return attended[0] if len(attended) == 1 else torch.cat(attended)


def _attend_in_loop(
    index: int, parts: tuple[torch.Tensor, torch.Tensor, torch.Tensor], batch: AttentionBatch, style: AttentionStyle
) -> torch.Tensor:  # [tokens, heads, head_dim]
    queries, keys, values = parts
    heads = torch.cat((queries, keys.transpose(0, 1), values.transpose(0, 1)), dim=1).numpy()
    seen = (float(style.scale_of(queries)), style.window or UNBOUNDED)
    attended = batch.attend_in_loop(index, heads, keys.shape[0], seen)
    return torch.from_numpy(attended).view(queries.shape)


def _attend_decode(
    queries: torch.Tensor, layer: LayerCache, batch: AttentionBatch, style: AttentionStyle
) -> torch.Tensor:  # [num_decodes, heads, head_dim]
    slots = range(batch.decode_slots[0], batch.decode_slots[-1] + 1)
    if len(slots) > SPARSE * len(batch.decode_slots):
        rows = [
            _attend_rows(queries[i : i + 1], layer, batch, range(s, s + 1), style)
            for i, s in enumerate(batch.decode_slots)
        ]
        return torch.cat(rows)
    if len(slots) == len(batch.decode_slots):
        return _attend_rows(queries, layer, batch, slots, style)
    present = torch.tensor([slot - slots.start for slot in batch.decode_slots], device=queries.device)
    spread = queries.new_zeros(len(slots), *queries.shape[1:]).index_copy_(0, present, queries)
    return _attend_rows(spread, layer, batch, slots, style)[present]


def _attend_rows(
    queries: torch.Tensor, layer: LayerCache, batch: AttentionBatch, slots: range, style: AttentionStyle
) -> torch.Tensor:  # [rows, heads, value_dim]
    mask = batch.decode_mask(slots, style, layer.keys.shape[1], queries)
    context = mask.shape[-1]
    keys = layer.keys[slots.start : slots.stop, :, :context]  # [rows, kv_heads, context, head_dim]
    values = layer.values[slots.start : slots.stop, :, :context]
    folded = queries.view(len(slots), keys.shape[1], -1, queries.shape[-1])  # [rows, kv_heads, group, head_dim]
    by_products = style.is_plain and queries.device.type == "cpu" and queries.dtype is torch.float32
    attended = (attend_by_products if by_products else attend_folded)(folded, keys, values, mask, style)
    return attended.reshape(len(slots), queries.shape[1], -1)


def _attend_chunk(
    queries: torch.Tensor, layer: LayerCache, batch: AttentionBatch, chunk: PromptChunk, style: AttentionStyle
) -> torch.Tensor:  # [length, heads, value_dim]
    keys = layer.keys[chunk.slot, None, :, : chunk.context]  # [1, kv_heads, context, head_dim]
    values = layer.values[chunk.slot, None, :, : chunk.context]
    length, heads, head_dim = queries.shape
    group = heads // keys.shape[1]
    folded = queries.transpose(0, 1).reshape(1, keys.shape[1], group * length, head_dim)
    mask = batch.chunk_mask(chunk, style, group, queries)
    attended = attend_folded(folded, keys, values, mask, style)  # [1, kv_heads, group * length, value_dim]
    return attended.reshape(heads, length, -1).transpose(0, 1)


def _additive(visible: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    mask = torch.zeros(visible.shape, dtype=like.dtype).masked_fill_(~visible, float("-inf"))
    return mask.to(like.device)
