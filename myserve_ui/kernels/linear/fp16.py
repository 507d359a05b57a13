"""A linear layer whose weight lies in float16 and is multiplied in float32, for weights that lose nothing by it.

A decode step takes as long as reading its weights: half the bytes, half the time. The kernel is FBGEMM's, which turns
a weight into float32 in the register and adds up in float32, so the result is that of the float32 weight.
"""

from __future__ import annotations

import torch

from myserve_ui.kernels.linear.packed import LinearKernel, PackedLinear
from myserve_ui.kernels.stored_embedding import halve_exactly

BLOCK_ROWS = 512
"""FBGEMM lays weights out in blocks of so many inputs, and keeps room for whole blocks."""


def can_compute_from_fp16() -> bool:
    """Whether this build of torch has the kernel, and this processor runs it."""
    return "fbgemm" in torch.backends.quantized.supported_engines and hasattr(
        torch.ops.quantized, "linear_dynamic_fp16"
    )


class Fp16Linear(LinearKernel):
    """`y = x W^T + b`, all in float32 but for where W lies."""

    packed_weight: torch.ScriptObject
    """[out_features, in_features] and the bias, opaque: only FBGEMM reads it."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> None:
        """A packed copy of `weight` [out_features, in_features] in float32, which float16 must hold exactly."""
        super().__init__(weight, bias)
        self.packed_weight = torch.ops.quantized.linear_prepack_fp16(weight.detach().contiguous(), self.bias)
        self._multiply = torch.ops.quantized.linear_dynamic_fp16.default

    @property
    def read_bytes(self) -> int:
        """What a product reads of the weight."""
        return 2 * self.out_features * self.in_features

    @property
    def stored_bytes(self) -> int:
        """What the weight takes, whole blocks of it."""
        return 2 * self.out_features * _stored_rows(self.in_features)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self._multiply(inputs, self.packed_weight)

    def add_to(self, residual: torch.Tensor, inputs: torch.Tensor) -> torch.Tensor:
        return self._multiply(inputs, self.packed_weight).add_(residual)


def pack_whole(weight: torch.Tensor, bias: torch.Tensor | None = None) -> LinearKernel:
    """The quickest layer that multiplies with every digit of `weight` [out_features, in_features] in its dtype."""
    return Fp16Linear(weight, bias) if can_compute_from_fp16() and _fits_fp16(weight) else PackedLinear(weight, bias)


def _fits_fp16(weight: torch.Tensor) -> bool:
    """Whether float16 holds every number, and whole blocks of it take no more memory than float32."""
    if weight.dtype is not torch.float32 or 2 * _stored_rows(weight.shape[1]) > 4 * weight.shape[1]:
        return False
    return halve_exactly(weight, (torch.float16,)) is not None


def _stored_rows(in_features: int) -> int:
    return -(-in_features // BLOCK_ROWS) * BLOCK_ROWS
