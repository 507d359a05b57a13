"""What linear layers with weights of their own form have in common, and the one that is laid out for oneDNN.

It is laid out once; a stock one is at every call.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn


class LinearKernel(nn.Module):
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


LinearKernelFactory = Callable[[torch.Tensor, torch.Tensor | None], LinearKernel]
"""Makes one of a weight [out_features, in_features] and a bias."""


ROWS_HINT = 16
"""Rows that the layout is chosen for. Layouts for 1 or for 512 are slower at every other size, this one at none."""


def can_pack(dtype: torch.dtype, device: torch.device) -> bool:
    """Whether this build of torch has the products, and this processor instructions for `dtype`."""
    if device.type != "cpu" or not torch.backends.mkldnn.is_available():
        return False
    if not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        return False
    has_bfloat16 = dtype is torch.bfloat16 and torch.ops.mkldnn._is_mkldnn_bf16_supported()
    return dtype is torch.float32 or bool(has_bfloat16)


class PackedLinear(LinearKernel):
    """`y = x W^T + b`, equal to `nn.Linear` but for the order of its sums."""

    packed_weight: torch.Tensor
    """[out_features, in_features], opaque: only oneDNN reads it."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> None:
        """A packed copy of `weight` [out_features, in_features]; the caller lets go of the original."""
        super().__init__(weight, bias)
        packed = torch.ops.mkldnn._reorder_linear_weight(weight.detach().contiguous(), ROWS_HINT)
        self.register_buffer("packed_weight", packed)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return torch.ops.mkldnn._linear_pointwise.default(inputs, self.packed_weight, self.bias, "none", [], "")

    def add_to(self, residual: torch.Tensor, inputs: torch.Tensor) -> torch.Tensor:
        return torch.ops.mkldnn._linear_pointwise.binary(inputs, residual, self.packed_weight, self.bias, "add")
