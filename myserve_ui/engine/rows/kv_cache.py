"""Keys and values of every running sequence: one row per sequence, per layer one tensor of rows.

A layer's tensor is [num_slots, num_kv_heads, capacity, head_dim]. Rows side by side are what lets one attention call
serve a whole batch as a view, with nothing gathered; the tokens of a head side by side are what a product reads at
full speed. Slots and capacity grow on demand; on a CPU, untouched memory is only reserved, not used.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import torch

MIN_CAPACITY = 256


@dataclass(slots=True)
class LayerCache:
    keys: torch.Tensor  # [num_slots, num_kv_heads, capacity, head_dim]
    values: torch.Tensor  # [num_slots, num_kv_heads, capacity, value_dim]

    @property
    def bytes_per_token(self) -> int:
        return sum(tensor[0, :, 0].nbytes for tensor in (self.keys, self.values))

    def write_tokens(self, places: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Single tokens, [num_kv_heads, num_tokens, dim], to `places` [num_kv_heads, num_tokens]; see `find_places`."""
        self.keys.view(-1, keys.shape[-1])[places] = keys
        self.values.view(-1, values.shape[-1])[places] = values

    def find_places(self, slots: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Where tokens of rows `slots` at `positions`, [num_tokens] each, lie: [num_kv_heads, num_tokens]."""
        num_heads, capacity = self.keys.shape[1:3]
        heads = torch.arange(num_heads, device=slots.device)[:, None]
        return (slots * num_heads + heads) * capacity + positions

    def write_span(self, slot: int, start: int, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Neighbouring tokens of one row, [num_kv_heads, num_tokens, dim], from position `start` on."""
        end = start + keys.shape[1]
        self.keys[slot, :, start:end] = keys
        self.values[slot, :, start:end] = values


class KVCache:
    """Rows of keys and values, for layers that come to be at their first write.

    A layer's shape is learnt from what the model writes, so that layers may differ (heads, head_dim, device).
    """

    def __init__(self, num_slots: int, max_len: int) -> None:
        self.num_slots = 1
        self.capacity = min(MIN_CAPACITY, max_len)
        self._max_slots = num_slots
        self._max_len = max_len
        self.layers: dict[int, LayerCache] = {}
        self._touched = [0] * num_slots

    @property
    def num_layers(self) -> int:
        return len(self.layers)

    @property
    def bytes_per_token(self) -> int:
        """Bytes that one token takes over all layers; 0 before the first forward."""
        return sum(layer.bytes_per_token for layer in self.layers.values())

    def reserve(self, allocated: Sequence[int]) -> None:
        """Make room for `allocated[slot]` tokens in every row; rows beyond the list hold nothing.

        The tensors are laid anew when they are too small, and when rows that shrank hold more memory than a
        second set of what is allocated now would take.
        """
        allocated = [*allocated, *[0] * (self._max_slots - len(allocated))]
        num_slots = max((slot + 1 for slot, length in enumerate(allocated) if length), default=1)
        length = max(allocated, default=1)
        self._touched = [max(touched, length) for touched, length in zip(self._touched, allocated, strict=True)]
        too_small = num_slots > self.num_slots or length > self.capacity
        too_large = sum(self._touched) > 2 * sum(allocated) + self._max_len
        if too_small or too_large:
            self.trim(allocated)

    def trim(self, allocated: Sequence[int]) -> None:
        """Lay the tensors anew, no larger than `allocated[slot]` tokens in every row need."""
        allocated = [*allocated, *[0] * (self._max_slots - len(allocated))]
        num_slots = max((slot + 1 for slot, length in enumerate(allocated) if length), default=1)
        slots = _grown(num_slots, 1, self._max_slots)
        self._rebuild(slots, _grown(max(allocated, default=1), MIN_CAPACITY, self._max_len), allocated)

    def layer(self, index: int, key: torch.Tensor, value: torch.Tensor) -> LayerCache:
        """The tensors of layer `index`; made at first sight of its key and value, [num_kv_heads, num_tokens, dim]."""
        if (layer := self.layers.get(index)) is None:
            layer = LayerCache(self._zeros(key), self._zeros(value))
            self.layers[index] = layer
        return layer

    def copy_row(self, source: int, target: int, length: int) -> None:
        """Copy the first `length` tokens of one row to another, in every layer."""
        for layer in self.layers.values():
            layer.keys[target, :, :length] = layer.keys[source, :, :length]
            layer.values[target, :, :length] = layer.values[source, :, :length]

    def clear_row(self, slot: int) -> None:
        """Zero what was written into a row."""
        if slot < self.num_slots:
            for layer in self.layers.values():
                layer.keys[slot, :, : self._touched[slot]] = 0
                layer.values[slot, :, : self._touched[slot]] = 0

    def _zeros(self, like: torch.Tensor) -> torch.Tensor:
        num_heads, _, dim = like.shape
        return reserve_zeros(like, self.num_slots, num_heads, self.capacity, dim)

    def _rebuild(self, num_slots: int, capacity: int, allocated: Sequence[int]) -> None:
        kept = [(slot, min(length, self.capacity)) for slot, length in enumerate(allocated[: self.num_slots]) if length]
        # If memory runs out on the way, some layers are new and some old: only what all have may be believed.
        self.num_slots, self.capacity = min(num_slots, self.num_slots), min(capacity, self.capacity)
        for layer in self.layers.values():
            layer.keys = _moved(layer.keys, (num_slots, capacity), kept)
            layer.values = _moved(layer.values, (num_slots, capacity), kept)
        self.num_slots, self.capacity = num_slots, capacity
        self._touched = list(allocated)


def reserve_zeros(like: torch.Tensor, *shape: int) -> torch.Tensor:
    """Zeros of the dtype and on the device of `like`; on a CPU memory is taken where it is first written, by 4 KiB.

    torch writes its zeros, and numpy asks for pages of 2 MiB, of which a row of few tokens in many heads takes one for
    each head: three times what is written, and most of a second to clear it where the rows are laid anew.
    """
    count = math.prod(shape) * like.element_size()
    if like.device.type != "cpu" or count == 0:
        return like.new_zeros(shape)
    try:
        pages = mmap.mmap(-1, count)
    except OSError as error:
        raise MemoryError(f"{count} bytes of cache cannot be reserved") from error
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        with suppress(OSError):  # a system without such pages
            pages.madvise(mmap.MADV_NOHUGEPAGE)
    return torch.frombuffer(pages, dtype=torch.uint8).view(like.dtype).view(shape)


def _moved(old: torch.Tensor, shape: tuple[int, int], kept: list[tuple[int, int]]) -> torch.Tensor:
    """Zeros of `shape` [num_slots, capacity], with the first `length` tokens of each kept (slot, length) in place."""
    num_slots, capacity = shape
    new = reserve_zeros(old, num_slots, old.shape[1], capacity, old.shape[3])
    for slot, length in kept:
        new[slot, :, :length] = old[slot, :, :length]
    return new


def _grown(wanted: int, smallest: int, largest: int) -> int:
    """The next power of two from `smallest` on that holds `wanted`, cut at `largest`."""
    size = smallest
    while size < wanted:
        size *= 2
    return max(wanted, min(size, largest))
