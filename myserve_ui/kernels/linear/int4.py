"""A linear layer whose weight stays in 4 bits through the product, by torch's own kernel for the CPU."""

from __future__ import annotations

import torch

from myserve_ui.kernels.linear.packed import LinearKernel

GROUP_SIZE = 32
"""Neighbouring inputs that share a scale and a zero: 16 + 16 bits over 32 weights, so 5 bits a weight in all.

Q4_1 and its kin group weights alike, so a model that was stored in it keeps its grid.
"""

ROW_MULTIPLE = 16
"""The kernel takes output rows in sixteens."""

LEVELS = 16
MIDDLE = 8


def fits_int4(out_features: int, in_features: int) -> bool:
    """Whether the kernel takes a weight of this size."""
    return out_features % ROW_MULTIPLE == 0 and in_features % GROUP_SIZE == 0


class Int4Linear(LinearKernel):
    """`y = x W^T + b` with W in groups of 4-bit levels. Inputs and products are rounded to bfloat16 in the kernel.

    A row's result does not depend on how many rows are multiplied together.
    """

    packed_weight: torch.Tensor
    """[out_features, in_features / 2] bytes, in the kernel's own order."""
    scales_and_zeros: torch.Tensor
    """[in_features / GROUP_SIZE, out_features, 2] in bfloat16."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> None:
        """Quantise `weight` [out_features, in_features], whose sizes must fit; `bias` is kept as it is."""
        super().__init__(weight, bias)
        assert fits_int4(self.out_features, self.in_features)
        levels, scales, zeros = quantize_in_groups(weight)
        pairs = torch.stack((scales, zeros), dim=-1).transpose(0, 1)  # [groups, out_features, 2]
        self.register_buffer("packed_weight", torch.ops.aten._convert_weight_to_int4pack_for_cpu(levels, 1))
        self.register_buffer("scales_and_zeros", pairs.to(torch.bfloat16).contiguous())
        self._multiply = torch.ops.aten._weight_int4pack_mm_for_cpu.default

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[..., in_features] -> [..., out_features], in the dtype of `x`."""
        rows = (x if x.dim() == 2 else x.reshape(-1, self.in_features)).to(torch.bfloat16)
        product = self._multiply(rows, self.packed_weight, GROUP_SIZE, self.scales_and_zeros)
        output = product.to(x.dtype)
        output = output if x.dim() == 2 else output.view(*x.shape[:-1], self.out_features)
        return output if self.bias is None else output + self.bias

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, group_size={GROUP_SIZE}"


def quantize_in_groups(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Levels 0..15 [out, in] in int32, scales and zeros [out, groups] in float32 that bfloat16 holds exactly.

    A weight is about `(level - 8) * scale + zero`: 16 even steps from the least to the largest of its group. Scale and
    zero are rounded first and levels fit the rounded ones.
    """
    groups = weight.float().unflatten(1, (-1, GROUP_SIZE))  # [out, groups, GROUP_SIZE]
    low, high = torch.aminmax(groups, dim=-1, keepdim=True)
    scales = _as_bfloat16((high - low) / (LEVELS - 1)).clamp_min(torch.finfo(torch.bfloat16).tiny)
    zeros = _as_bfloat16(low + MIDDLE * scales)
    levels = ((groups - zeros) / scales + MIDDLE).round_().clamp_(0, LEVELS - 1)
    return levels.flatten(1).to(torch.int32), scales.squeeze(-1), zeros.squeeze(-1)


def round_to_groups(weight: torch.Tensor) -> torch.Tensor:
    """`weight` [out, in] as Int4Linear keeps it, in float32."""
    return dequantize_groups(*quantize_in_groups(weight))


def dequantize_groups(levels: torch.Tensor, scales: torch.Tensor, zeros: torch.Tensor) -> torch.Tensor:
    """The weight [out, in] in float32 that the levels stand for."""
    groups = levels.unflatten(1, (-1, GROUP_SIZE)) - MIDDLE
    return (groups * scales.unsqueeze(-1) + zeros.unsqueeze(-1)).flatten(1)


def _as_bfloat16(values: torch.Tensor) -> torch.Tensor:
    return values.to(torch.bfloat16).float()
