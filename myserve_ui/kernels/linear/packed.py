"""A linear layer for the CPU whose weight is laid out once for oneDNN; a stock one lays it out at every call."""

from __future__ import annotations

import torch

from myserve_ui.kernels.linear.product import Product

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


class PackedLinear(Product):
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
