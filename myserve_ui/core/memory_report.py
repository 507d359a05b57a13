"""What a model's weights take: which tensors are in how many bits, byte by byte, each stored number once."""

from __future__ import annotations

from dataclasses import dataclass

QUANTIZED_FORMATS = frozenset({"nf4", "fp4", "int4", "int8"})
"""Formats below the checkpoint's own; every other format is the name of a dtype."""


EXPANDED_FORMATS = frozenset({"nf4", "fp4"})
"""Formats that some kernels write out as full numbers before the product, and then read again."""


@dataclass(frozen=True, slots=True)
class WeightGroup:
    """Tensors of one name in every layer, such as the query weights."""

    pattern: str
    """Their common name, layer numbers written as `*`: model.layers.*.self_attn.q_proj.weight."""
    format: str
    """"nf4", "int4", "int8", or a dtype such as "float32"."""
    num_tensors: int
    num_parameters: int
    """As the unquantised model has them; 0 for buffers."""
    weight_bytes: int
    """With the quantisation state."""
    state_bytes: int
    """Of these, the quantisation state: scales, zeros, absmax, codes."""
    padding_bytes: int = 0
    """Of these, room that a kernel's layout leaves empty: stored, never read."""

    @property
    def is_quantized(self) -> bool:
        return self.format in QUANTIZED_FORMATS

    @property
    def bits_per_parameter(self) -> float | None:
        """None for buffers."""
        return 8 * self.weight_bytes / self.num_parameters if self.num_parameters else None


@dataclass(frozen=True, slots=True)
class MemoryReport:
    """All weights of one (model, precision), as they lie in memory."""

    groups: tuple[WeightGroup, ...]
    """Largest first."""
    tied: tuple[tuple[str, ...], ...] = ()
    """Names that share one tensor; the first is the one that `groups` counts."""
    lookup: str | None = None
    """Pattern of an input embedding that is not the head as well: a step reads a row of it for a token, not all."""

    @property
    def read(self) -> tuple[WeightGroup, ...]:
        """What a step reads whole."""
        return tuple(group for group in self.groups if group.pattern != self.lookup)

    @property
    def weight_bytes(self) -> int:
        return sum(group.weight_bytes for group in self.groups)

    @property
    def num_parameters(self) -> int:
        return sum(group.num_parameters for group in self.groups)

    @property
    def bits_per_parameter(self) -> float | None:
        return 8 * self.weight_bytes / self.num_parameters if self.num_parameters else None

    @property
    def quantized(self) -> tuple[WeightGroup, ...]:
        return tuple(group for group in self.groups if group.is_quantized)

    @property
    def kept(self) -> tuple[WeightGroup, ...]:
        """Not quantised."""
        return tuple(group for group in self.groups if not group.is_quantized)

    @property
    def bits_per_quantized_parameter(self) -> float | None:
        """With their state; None if nothing is quantised."""
        count = sum(group.num_parameters for group in self.quantized)
        return 8 * sum(group.weight_bytes for group in self.quantized) / count if count else None

    def bytes_by_format(self) -> dict[str, int]:
        """Bytes of each format, in the order of `groups`."""
        totals: dict[str, int] = {}
        for group in self.groups:
            totals[group.format] = totals.get(group.format, 0) + group.weight_bytes
        return totals


def count_weight_traffic(memory: MemoryReport, *, expanded_itemsize: int | None = None) -> int:
    """Bytes that a step moves for the weights.

    Every byte once, but for padding and for an embedding that is only looked up. With `expanded_itemsize` (bytes of a
    number of the compute dtype) 4-bit weights of bitsandbytes are first written out in it and then read again.
    """
    total = 0
    for group in memory.read:
        total += group.weight_bytes - group.padding_bytes
        if expanded_itemsize is not None and group.format in EXPANDED_FORMATS:
            total += 2 * group.num_parameters * expanded_itemsize
    return total
