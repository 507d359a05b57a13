"""Decoder layers of the llama kind in a third of the calls: for a small model on a CPU, the calls cost what matters.

A lean layer computes what the transformers layer does, from the same weights, and takes the same arguments: it attends
through the attention interface and writes through the cache it is given. The products of q, k and v are one, those of
gate and up are one, residuals are added in place, and rotary positions are one complex multiplication.
"""

from __future__ import annotations

import copy
import sys
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers import PreTrainedModel
from transformers.activations import SiLUActivation
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from myserve_ui.kernels.linear.packed import LinearKernelFactory
from myserve_ui.kernels.row_loops import (
    UNBOUNDED,
    RowBatch,
    add_and_norm_rows,
    gate_rows,
    norm_heads,
    norm_rows,
    rotate_rows,
)

KINDS = frozenset({"LlamaDecoderLayer", "MistralDecoderLayer", "Qwen2DecoderLayer", "Qwen3DecoderLayer"})
"""Layers that are nothing but norm, attention with rotary positions, norm, gated MLP."""


SILU = (nn.SiLU, SiLUActivation)
"""The activations that the loops over rows know."""


class ComplexRotary(nn.Module):
    """The model's own rotary positions as unit complex numbers [batch, tokens, 1, head_dim / 2]."""

    def __init__(self, rotary: nn.Module) -> None:
        super().__init__()
        self.rotary = rotary

    def forward(self, hidden: torch.Tensor, position_ids: torch.Tensor) -> torch.Tensor:
        cosines, sines = self.rotary(hidden, position_ids)  # each half of head_dim says the same
        half = cosines.shape[-1] // 2
        return torch.complex(cosines[..., :half], sines[..., :half]).unsqueeze(2)


class LeanNorm(nn.Module):
    """Root-mean-square norm in float32, in half the calls.

    `x w / sqrt(mean(x^2) + e) = x (w sqrt(n)) / hypot(|x|, sqrt(n e))` over n numbers.
    """

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        weight = norm.get_parameter("weight").detach()
        size = weight.shape[-1]
        self.weight = nn.Parameter(weight * size**0.5, requires_grad=False)
        floor = size * float(norm.variance_epsilon)  # type: ignore[arg-type]
        self.floor = torch.tensor(floor**0.5)
        self.floor_squared = np.float32(floor)

    @property
    def numbers(self) -> tuple[np.ndarray, np.float32]:
        """Weight and floor as the loops over rows take them."""
        return self.weight.detach().numpy(), self.floor_squared

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        length = torch.linalg.vector_norm(hidden, dim=-1, keepdim=True)
        return hidden.div(torch.hypot(length, self.floor)).mul_(self.weight)


class LeanDecoderLayer(nn.Module):
    """One layer; `position_embeddings` must come from ComplexRotary."""

    def __init__(self, layer: nn.Module, make: LinearKernelFactory) -> None:
        """Made of the weights of `layer`, which is of one of KINDS and stays as it is."""
        super().__init__()
        attention, mlp = layer.get_submodule("self_attn"), layer.get_submodule("mlp")
        self.head_dim: int = attention.head_dim  # type: ignore[assignment]
        num_heads, num_kv_heads = (
            _weights_of(attention, name)[0].shape[0] // self.head_dim for name in ("q_proj", "k_proj")
        )
        self.head_counts = (num_heads, num_kv_heads, num_kv_heads)
        self.num_rotated = num_heads + num_kv_heads
        self.norm = LeanNorm(layer.get_submodule("input_layernorm"))
        self.mlp_norm = LeanNorm(layer.get_submodule("post_attention_layernorm"))
        self.query_norm = _paired_norm(attention, "q_norm")
        self.key_norm = _paired_norm(attention, "k_norm")
        self.qkv = make(*_fused_qkv(attention, self.head_dim))
        self.output = make(*_weights_of(attention, "o_proj"))
        self.gate_up = make(*_joined([_weights_of(mlp, "gate_proj"), _weights_of(mlp, "up_proj")]))
        self.down = make(*_weights_of(mlp, "down_proj"))
        self.activation: Any = mlp.act_fn
        self.attention = _without_parts(attention)
        self.layer_idx: int = attention.layer_idx  # type: ignore[assignment]
        self.attention_options = {"scaling": attention.scaling, "dropout": 0.0}
        if (window := _window_of(attention)) is not None:
            self.attention_options["sliding_window"] = window
        self.config: Any = attention.config
        self.eager = sys.modules[type(attention).__module__].eager_attention_forward
        # Bound once: to find a part of a module and enter it past its hooks takes as long as a small kernel.
        self._before = (self.norm.forward, self.qkv.forward)
        self._after = (self.output.add_to, self.mlp_norm.forward, self.gate_up.forward, self.down.add_to)
        self._prepare_rows(window)

    def _prepare_rows(self, window: int | None) -> None:
        self.takes_rows = isinstance(self.activation, SILU)
        norm, mlp_norm = self.norm.numbers, self.mlp_norm.numbers
        self._row_parts = (
            *(norm, self.qkv.forward, self.output.forward),
            *(mlp_norm, self.gate_up.forward, self.down.add_to),
        )
        borders = (0, self.head_counts[0], self.num_rotated)
        norms = [None if part is None else part.numbers for part in (self.query_norm, self.key_norm)]
        self._normed_heads = [(*span, own) for span, own in zip(pairwise(borders), norms, strict=True) if own]
        self._row_style = (float(self.attention.scaling), window or UNBOUNDED)  # type: ignore[arg-type]

    def forward(
        self,
        hidden: torch.Tensor,  # [batch, tokens, hidden_size]
        attention_mask: torch.Tensor | None = None,
        position_embeddings: torch.Tensor | None = None,
        cache: Any | None = None,
        **options: Any,
    ) -> torch.Tensor:
        """The layer's output, of the shape of `hidden`. `options` go on to the attention function."""
        if (batch := options.get("row_batch")) is not None and self.takes_rows:
            return self._forward_rows(hidden, position_embeddings, batch)  # type: ignore[arg-type]
        norm, project = self._before
        add_output, mlp_norm, gate_up, add_down = self._after
        query, key, value = self._rotate(project(norm(hidden)), position_embeddings)
        if cache is not None:
            key, value = cache.update(key, value, self.layer_idx)
        attend = ALL_ATTENTION_FUNCTIONS.get_interface(self.config._attn_implementation, self.eager)
        attended, _ = attend(self.attention, query, key, value, attention_mask, **self.attention_options, **options)
        hidden = add_output(hidden, attended.reshape(*hidden.shape[:-1], -1))
        gate, up = gate_up(mlp_norm(hidden)).chunk(2, dim=-1)
        return add_down(hidden, self.activation(gate).mul_(up))

    def _forward_rows(self, hidden: torch.Tensor, rotation: torch.Tensor, batch: RowBatch) -> torch.Tensor:
        """The same for the tokens of an engine's step: a loop between two products, not ten calls."""
        norm, project, project_back, mlp_norm, gate_up, add_down = self._row_parts
        residual = hidden.numpy()[0]
        heads = project(torch.from_numpy(norm_rows(residual, *norm))).numpy().reshape(len(residual), -1, self.head_dim)
        for first, last, numbers in self._normed_heads:
            norm_heads(heads, first, last, *numbers)
        rotate_rows(heads, rotation.numpy()[0, :, 0], self.num_rotated)
        attended = batch.attend_rows(self.layer_idx, heads, self.head_counts[1], self._row_style)
        middle = project_back(torch.from_numpy(attended))
        normed = add_and_norm_rows(middle.numpy(), residual, *mlp_norm)
        gated = gate_rows(gate_up(torch.from_numpy(normed)).numpy())
        return add_down(middle, torch.from_numpy(gated))[None]

    def _rotate(
        self, qkv: torch.Tensor, rotation: torch.Tensor | None
    ) -> tuple[torch.Tensor, ...]:  # [batch, heads or kv_heads, tokens, head_dim], three times
        heads = qkv.unflatten(-1, (-1, self.head_dim))
        if self.query_norm is not None and self.key_norm is not None:
            query, key, value = heads.split(self.head_counts, dim=2)
            heads = torch.cat((self.query_norm(query), self.key_norm(key), value), dim=2)
        pairs = torch.view_as_complex(heads.unflatten(-1, (-1, 2)))
        pairs[:, :, : self.num_rotated].mul_(rotation)  # type: ignore[arg-type]
        return heads.transpose(1, 2).split(self.head_counts, dim=1)


def find_lean_layers(model: PreTrainedModel) -> nn.ModuleList | None:
    """The decoder layers of `model` if a lean layer can stand for each of them."""
    layers = getattr(model.base_model, "layers", None)
    if not isinstance(layers, nn.ModuleList) or not hasattr(model.base_model, "rotary_emb"):
        return None
    return layers if all(type(layer).__name__ in KINDS and _turns_whole_heads(layer) for layer in layers) else None


def _turns_whole_heads(layer: nn.Module) -> bool:
    config: Any = layer.get_submodule("self_attn").config
    return float((config.rope_parameters or {}).get("partial_rotary_factor", 1.0)) == 1.0


def _without_parts(attention: nn.Module) -> nn.Module:
    """The module that attention functions are given: its layer_idx, scaling and config, and none of its weights."""
    shell = copy.copy(attention)
    shell._modules = {}
    return shell


def _window_of(attention: nn.Module) -> int | None:
    if type(attention).__name__ == "MistralAttention":  # the one kind that asks its configuration at each call
        return getattr(attention.config, "sliding_window", None)
    window = getattr(attention, "sliding_window", None)
    return window if isinstance(window, int) else None


def _paired_norm(attention: nn.Module, name: str) -> LeanNorm | None:
    if not isinstance(norm := getattr(attention, name, None), nn.Module):
        return None
    paired = LeanNorm(norm)
    paired.weight = nn.Parameter(_in_pairs(paired.weight.data, paired.weight.shape[0]), requires_grad=False)
    return paired


def _fused_qkv(attention: nn.Module, head_dim: int) -> tuple[torch.Tensor, torch.Tensor | None]:
    query, key = ([_in_pairs_or_none(part, head_dim) for part in _weights_of(attention, f"{n}_proj")] for n in "qk")
    return _joined([(query[0], query[1]), (key[0], key[1]), _weights_of(attention, "v_proj")])  # type: ignore[list-item]


def _in_pairs(rows: torch.Tensor, head_dim: int) -> torch.Tensor:
    """Rows of each head with the two numbers of a rotation side by side, as complex numbers lie.

    transformers rotates row i with row i + head_dim / 2. Queries and keys are reordered alike, so their products stay.
    """
    return rows.unflatten(0, (-1, 2, head_dim // 2)).transpose(1, 2).flatten(0, 2)


def _in_pairs_or_none(rows: torch.Tensor | None, head_dim: int) -> torch.Tensor | None:
    return None if rows is None else _in_pairs(rows, head_dim)


def _weights_of(owner: nn.Module, name: str) -> tuple[torch.Tensor, torch.Tensor | None]:
    layer = owner.get_submodule(name)
    bias = getattr(layer, "bias", None)
    return layer.get_parameter("weight").detach(), None if bias is None else bias.detach()


def _joined(parts: list[tuple[torch.Tensor, torch.Tensor | None]]) -> tuple[torch.Tensor, torch.Tensor | None]:
    """One weight and one bias for layers that read the same inputs; a missing bias beside others is zero."""
    weight = torch.cat([weight for weight, _ in parts])
    if all(bias is None for _, bias in parts):
        return weight, None
    return weight, torch.cat([weight.new_zeros(weight.shape[0]) if bias is None else bias for weight, bias in parts])
