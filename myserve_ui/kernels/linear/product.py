"""What a lean decoder layer needs of its weights, whatever form they are stored in."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn


class Product(nn.Module):
    """A linear layer with one thing more: its result on top of a residual, in as few calls as the kernel allows."""

    in_features: int
    out_features: int
    bias: torch.Tensor | None

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        """The sizes of `weight` [out_features, in_features], whose form is the kind's own, and `bias` as it is."""
        super().__init__()
        self.out_features, self.in_features = weight.shape
        self.register_buffer("bias", None if bias is None else bias.detach())

    def add_to(self, residual: torch.Tensor, inputs: torch.Tensor) -> torch.Tensor:
        """`residual + self(inputs)`, as a new tensor in the dtype of `residual` [..., out_features]."""
        return residual + self(inputs)


ProductFactory = Callable[[torch.Tensor, torch.Tensor | None], Product]
"""Makes one of a weight [out_features, in_features] and a bias."""
