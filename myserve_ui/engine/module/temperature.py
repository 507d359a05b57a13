"""Queries that are scaled by their position (Llama 4), done by the attention function instead of the layer.

The layer counts positions from the first token of the forward, which in a flat batch is anybody's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True, slots=True)
class Temperature:
    """How one layer scales its queries."""

    floor_scale: float
    attn_scale: float

    def scales(self, positions: torch.Tensor) -> torch.Tensor:
        """[tokens] -> [tokens], one for every token below `floor_scale`."""
        return torch.log1p(torch.floor((positions.float() + 1.0) / self.floor_scale)) * self.attn_scale + 1.0

    def tuned(self, queries: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Queries [tokens, heads, head_dim] at `positions`."""
        return (queries * self.scales(positions)[:, None, None]).to(queries.dtype)


def take_over_temperatures(module: torch.nn.Module) -> dict[int, Temperature]:
    """By the number of the layer. The layers leave their queries alone from now on."""
    taken = {}
    for part in module.modules():
        layer: Any = part
        if getattr(layer, "attn_temperature_tuning", False) and hasattr(layer, "floor_scale"):
            if not layer.use_rope:
                taken[int(layer.layer_idx)] = Temperature(float(layer.floor_scale), float(layer.attn_scale))
            layer.attn_temperature_tuning = False
    return taken


def give_back(module: torch.nn.Module, taken: dict[int, Temperature]) -> None:
    """The layers scale their queries themselves again."""
    for part in module.modules() if taken else ():
        layer: Any = part
        if hasattr(layer, "attn_temperature_tuning"):
            layer.attn_temperature_tuning = True
