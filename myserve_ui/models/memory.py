"""What a model weighs: every byte that stays in memory, counted once, and the parameters these bytes stand for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from transformers import PretrainedConfig


@dataclass(frozen=True, slots=True)
class WeightReport:
    """Bytes and counts of one module's weights."""

    weight_bytes: int
    """Parameters, buffers and quantisation states (absmax, nested absmax, codes); tied tensors once."""
    num_parameters: int
    """As the unquantised model has them: a packed tensor counts the numbers it stands for."""
    bytes_by_dtype: dict[str, int]
    """Bytes of parameters and buffers by dtype; packed weights are "4-bit", their states "quantisation state"."""
    four_bit_modules: tuple[str, ...]
    """Names of the modules whose weight is in 4 bits."""


def measure_weights(module: torch.nn.Module) -> WeightReport:
    """Count `module`'s weights as they lie in memory now."""
    bytes_by_dtype: dict[str, int] = {}
    seen: set[tuple[str, int]] = set()
    for label, tensor in _labelled_tensors(module):
        if (identity := _identity(tensor)) not in seen:
            seen.add(identity)
            bytes_by_dtype[label] = bytes_by_dtype.get(label, 0) + tensor.numel() * tensor.element_size()
    return WeightReport(
        weight_bytes=sum(bytes_by_dtype.values()),
        num_parameters=_count_parameters(module),
        bytes_by_dtype=bytes_by_dtype,
        four_bit_modules=tuple(
            name for name, part in module.named_modules() if _state(getattr(part, "weight", None)) is not None
        ),
    )


def count_kv_bytes_per_token(config: PretrainedConfig, dtype: torch.dtype) -> int | None:
    """Bytes of keys and values that one token takes in all layers; None if the configuration does not say."""
    text = config.get_text_config()
    heads = getattr(text, "num_attention_heads", None)
    layers = getattr(text, "num_hidden_layers", None)
    if not isinstance(heads, int) or not isinstance(layers, int):
        return None
    kv_heads = getattr(text, "num_key_value_heads", None) or heads
    head_dim = getattr(text, "head_dim", None) or text.hidden_size // heads
    return int(2 * layers * kv_heads * head_dim * dtype.itemsize)


def _labelled_tensors(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    for parameter in module.parameters():
        state = _state(parameter)
        yield ("4-bit" if state is not None else _dtype_name(parameter)), parameter
        for tensor in _state_tensors(state):
            yield "quantisation state", tensor
    for buffer in module.buffers():
        yield _dtype_name(buffer), buffer


def _state(parameter: torch.Tensor | None) -> Any | None:
    """bitsandbytes' state of a packed weight: absmax, code, shape, and a second state if absmax is packed too."""
    return getattr(parameter, "quant_state", None)


def _state_tensors(state: Any | None) -> Iterator[torch.Tensor]:
    if state is None:
        return
    for value in (state.absmax, state.code, getattr(state, "offset", None)):
        if isinstance(value, torch.Tensor):
            yield value
    yield from _state_tensors(getattr(state, "state2", None))


def _count_parameters(module: torch.nn.Module) -> int:
    """Tied parameters once: `parameters()` gives each object once."""
    states = ((parameter, _state(parameter)) for parameter in module.parameters())
    return sum(parameter.numel() if state is None else torch.Size(state.shape).numel() for parameter, state in states)


def _identity(tensor: torch.Tensor) -> tuple[str, int]:
    return str(tensor.device), tensor.data_ptr()


def _dtype_name(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
