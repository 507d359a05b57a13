"""Keys and values in blocks: per layer one pool, of which each row has the blocks that its tokens fill.

A layer's pool is [num_blocks, BLOCK_SIZE, num_kv_heads, head_dim]. Memory follows what is allocated to rows, not rows
times the longest: on a device where memory is taken when it is allocated, this is what lets one sequence be long.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from myserve_ui.engine.blocks.tables import BLOCK_SIZE, BlockTables, count_blocks

MIN_BLOCKS = 16
"""Of a pool at its first growth: enough to begin with, little enough for a small device."""


@dataclass(slots=True)
class LayerBlocks:
    keys: torch.Tensor  # [num_blocks, BLOCK_SIZE, num_kv_heads, head_dim]
    values: torch.Tensor  # [num_blocks, BLOCK_SIZE, num_kv_heads, value_dim]

    @property
    def bytes_per_token(self) -> int:
        return sum(tensor[0, 0].nbytes for tensor in (self.keys, self.values))

    def write(self, slot_mapping: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Put the keys and values of tokens, [num_tokens, kv_heads, dim], at their places among the pool's tokens."""
        self.keys.flatten(0, 1).index_copy_(0, slot_mapping, keys)
        self.values.flatten(0, 1).index_copy_(0, slot_mapping, values)


class BlockCache:
    """Pools of blocks, for layers that come to be at their first write; the same blocks are a row's in every layer.

    What is in a block that was just given is not defined: kernels must not read beyond a row's context.
    """

    def __init__(self, num_slots: int, max_len: int) -> None:
        self.tables = BlockTables(num_slots)
        self.max_blocks_per_row = count_blocks(max_len)
        self.version = 0
        """Changes whenever the pools move in memory, or rows get another length."""
        self._most_blocks = 1 + num_slots * self.max_blocks_per_row
        """Growing to twice the size stops here."""
        self._layers: dict[int, LayerBlocks] = {}

    @property
    def num_layers(self) -> int:
        return len(self._layers)

    @property
    def bytes_per_token(self) -> int:
        """Bytes that one token takes over all layers; 0 before the first forward."""
        return sum(layer.bytes_per_token for layer in self._layers.values())

    @property
    def devices(self) -> set[torch.device]:
        """Where the layers are."""
        return {layer.keys.device for layer in self._layers.values()}

    def bound(self, max_len: int, max_tokens: int) -> None:
        """Rows will be no longer than `max_len`, and are allocated no more than `max_tokens` together."""
        self.max_blocks_per_row = count_blocks(max_len)
        self._most_blocks = 1 + count_blocks(max_tokens) + self.tables.num_slots
        self.version += 1

    @torch.inference_mode()
    def reserve(self, allocated: Sequence[int]) -> None:
        """Give every row blocks for `allocated[slot]` tokens, and free what is beyond.

        The pools grow to twice their size when they are too small. If memory runs out on the way, what was in the
        rows is still there.
        """
        self.tables.shrink(allocated)
        if missing := self.tables.count_missing(allocated):
            self._enlarge(self.tables.num_blocks + missing)
        self.tables.grow(allocated)

    @torch.inference_mode()
    def trim(self, allocated: Sequence[int]) -> None:
        """The same, with pools no larger than that takes."""
        self.tables.shrink(allocated)
        for source, target in self.tables.compact():
            for layer in self._layers.values():
                layer.keys[target] = layer.keys[source]
                layer.values[target] = layer.values[source]
        self.version += 1
        for layer in self._layers.values():
            layer.keys = layer.keys[: self.tables.num_blocks].clone()
            layer.values = layer.values[: self.tables.num_blocks].clone()
        if missing := self.tables.count_missing(allocated):
            self._resize(self.tables.num_blocks + missing)
        self.tables.grow(allocated)

    def layer(self, index: int, key: torch.Tensor, value: torch.Tensor) -> LayerBlocks:
        """The pools of layer `index`; made at first sight of its key and value, [num_tokens, heads, dim]."""
        if (layer := self._layers.get(index)) is None:
            shape = (self.tables.num_blocks, BLOCK_SIZE)
            layer = LayerBlocks(key.new_zeros(*shape, *key.shape[1:]), value.new_zeros(*shape, *value.shape[1:]))
            self._layers[index] = layer
        return layer

    @torch.inference_mode()
    def copy_row(self, source: int, target: int, length: int) -> None:
        """Copy the first `length` tokens of one row to another, in whole blocks and in every layer."""
        count = count_blocks(length)
        for old, new in zip(self.tables[source][:count], self.tables[target][:count], strict=True):
            for layer in self._layers.values():
                layer.keys[new] = layer.keys[old]
                layer.values[new] = layer.values[old]

    def _enlarge(self, wanted: int) -> None:
        doubled = min(max(2 * self.tables.num_blocks, MIN_BLOCKS), self._most_blocks)
        self._resize(max(wanted, doubled))

    def _resize(self, num_blocks: int) -> None:
        """Pools of at least `num_blocks`. A failure half way leaves some layers larger than they need be, no more."""
        self.version += 1
        for layer in self._layers.values():
            layer.keys = _extended(layer.keys, num_blocks)
            layer.values = _extended(layer.values, num_blocks)
        self.tables.enlarge(num_blocks)


def _extended(pool: torch.Tensor, num_blocks: int) -> torch.Tensor:
    if len(pool) >= num_blocks:
        return pool
    extended = pool.new_zeros(num_blocks, *pool.shape[1:])
    extended[: len(pool)] = pool
    return extended
