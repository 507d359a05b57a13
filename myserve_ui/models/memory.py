"""Weighs a loaded module: every byte that stays in memory, once, and the parameters these bytes stand for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from transformers import PretrainedConfig, PreTrainedModel

from myserve_ui.core.memory_report import MemoryReport, WeightGroup
from myserve_ui.kernels.attention_formula import configurations_of
from myserve_ui.kernels.linear.fp16 import Fp16Linear
from myserve_ui.kernels.linear.int4 import Int4Linear
from myserve_ui.kernels.linear.packed import LinearKernel, PackedLinear
from myserve_ui.kernels.stored_embedding import StoredEmbedding

_Identity = tuple[str, int]
_State = tuple[torch.Tensor, ...]
LAYER_NUMBER = re.compile(r"(?<=\.)\d+(?=\.)")


@dataclass(frozen=True, slots=True)
class _Part:
    """One parameter or buffer with what is needed to read it."""

    name: str
    format: str
    num_parameters: int
    identity: _Identity
    num_bytes: int
    state: _State = ()
    padding_bytes: int = 0


def _tensor_part(name: str, count: int, tensor: torch.Tensor, *, form: str | None = None, state: _State = ()) -> _Part:
    return _Part(name, form or _dtype_name(tensor), count, _identity(tensor), tensor.nbytes, state)


def measure_memory(module: torch.nn.Module) -> MemoryReport:
    """Weigh `module` as it is now: parameters, buffers and quantisation states, shared tensors once."""
    parts: dict[_Identity, _Part] = {}
    names: dict[_Identity, list[str]] = {}
    for part in _parts(module):
        parts.setdefault(part.identity, part)
        names.setdefault(part.identity, []).append(part.name)
    tied = tuple(tuple(shared) for shared in names.values() if len(shared) > 1)
    return MemoryReport(
        groups=_grouped(_without_shared_states(parts.values())), tied=tied, lookup=_find_lookup(module, tied)
    )


def count_kv_bytes_per_token(config: PretrainedConfig, dtype: torch.dtype) -> int | None:
    """Bytes of keys and values that one token takes in all layers; None if the configuration does not say."""
    text = config.get_text_config()
    layers = configurations_of(text)
    count = getattr(text, "num_hidden_layers", None)
    sizes = [_kv_size(layer) for layer in layers]
    if not isinstance(count, int) or None in sizes:
        return None
    return sum(filter(None, sizes)) * count // len(layers) * dtype.itemsize


def _kv_size(layer: PretrainedConfig) -> int | None:
    """Numbers of keys and values that a token takes in a layer."""
    heads = getattr(layer, "num_attention_heads", None)
    if not isinstance(heads, int) or getattr(layer, "skip", None):
        return None
    kv_heads = getattr(layer, "num_key_value_heads", None) or heads
    head_dim = getattr(layer, "head_dim", None) or layer.hidden_size // heads
    return int(2 * kv_heads * head_dim)


def _find_lookup(module: torch.nn.Module, tied: tuple[tuple[str, ...], ...]) -> str | None:
    """The input embedding of a transformers model, unless it is tied to the head."""
    if not isinstance(module, PreTrainedModel):
        return None
    embedding = module.get_input_embeddings()
    name = next(f"{name}.weight" for name, part in module.named_modules() if part is embedding)
    return None if any(name in shared for shared in tied) else name


def _without_shared_states(parts: Iterable[_Part]) -> Iterator[_Part]:
    """Layers may share a code table: it belongs to the first."""
    seen: set[_Identity] = set()
    for part in parts:
        own = tuple(tensor for tensor in part.state if _identity(tensor) not in seen)
        seen.update(map(_identity, own))
        yield replace(part, state=own)


def _grouped(parts: Iterable[_Part]) -> tuple[WeightGroup, ...]:
    members: dict[tuple[str, str], list[_Part]] = {}
    for part in parts:
        members.setdefault((LAYER_NUMBER.sub("*", part.name), part.format), []).append(part)
    groups = [_group(pattern, format_name, parts) for (pattern, format_name), parts in members.items()]
    return tuple(sorted(groups, key=lambda group: -group.weight_bytes))


def _group(pattern: str, format_name: str, parts: list[_Part]) -> WeightGroup:
    state_bytes = sum(tensor.nbytes for part in parts for tensor in part.state)
    return WeightGroup(
        pattern=pattern,
        format=format_name,
        num_tensors=len(parts),
        num_parameters=sum(part.num_parameters for part in parts),
        weight_bytes=sum(part.num_bytes for part in parts) + state_bytes,
        state_bytes=state_bytes,
        padding_bytes=sum(part.padding_bytes for part in parts),
    )


def _parts(module: torch.nn.Module) -> Iterator[_Part]:
    for name, owner in module.named_modules():
        prefix = f"{name}." if name else ""
        if isinstance(owner, LinearKernel):
            yield from _kernel_parts(prefix, owner)
            continue
        if isinstance(owner, StoredEmbedding):
            count = 0 if owner.copies_head else owner.weight.numel()
            yield _tensor_part(f"{prefix}weight", count, owner.weight)
            continue
        for child, parameter in owner.named_parameters(recurse=False):
            part = _parameter_part(f"{prefix}{child}", owner, parameter)
            yield replace(part, num_parameters=0) if getattr(owner, "copies_head", False) else part
        for child, buffer in owner.named_buffers(recurse=False):
            yield _tensor_part(f"{prefix}{child}", 0, buffer)


def _kernel_parts(prefix: str, layer: LinearKernel) -> Iterator[_Part]:
    name, count = f"{prefix}weight", layer.out_features * layer.in_features
    if isinstance(layer, Int4Linear):
        yield _tensor_part(name, count, layer.packed_weight, form="int4", state=(layer.scales_and_zeros,))
    elif isinstance(layer, PackedLinear):
        yield _tensor_part(name, count, layer.packed_weight)
    elif isinstance(layer, Fp16Linear):
        padding = layer.stored_bytes - layer.read_bytes
        yield _Part(name, "float16", count, ("packed", id(layer)), layer.stored_bytes, padding_bytes=padding)
    if layer.bias is not None:
        yield _tensor_part(f"{prefix}bias", layer.bias.numel(), layer.bias)


def _parameter_part(name: str, owner: torch.nn.Module, parameter: torch.nn.Parameter) -> _Part:
    """A packed tensor of bitsandbytes counts the numbers it stands for, and its state belongs to it."""
    if (state := getattr(parameter, "quant_state", None)) is not None:
        count = torch.Size(state.shape).numel()
        return _tensor_part(name, count, parameter, form=state.quant_type, state=tuple(_state_tensors(state)))
    if (scales := _int8_scales(owner, parameter)) is not None:
        return _tensor_part(name, parameter.numel(), parameter, form="int8", state=(scales,))
    return _tensor_part(name, parameter.numel(), parameter)


def _state_tensors(state: Any | None) -> Iterator[torch.Tensor]:
    """absmax and code, and those of the second state where absmax is packed too."""
    if state is None:
        return
    for value in (state.absmax, state.code, getattr(state, "offset", None)):
        if isinstance(value, torch.Tensor):
            yield value
    yield from _state_tensors(getattr(state, "state2", None))


def _int8_scales(owner: torch.nn.Module, parameter: torch.Tensor) -> torch.Tensor | None:
    """A scale a row; bitsandbytes moves them from the weight to the layer at the first forward."""
    if parameter.dtype is not torch.int8:
        return None
    scales = getattr(parameter, "SCB", None)
    return scales if scales is not None else getattr(getattr(owner, "state", None), "SCB", None)


def _identity(tensor: torch.Tensor) -> _Identity:
    """Where it lies; a packed tensor does not say, and is never shared."""
    return str(tensor.device), id(tensor) if tensor.is_mkldnn else tensor.data_ptr()


def _dtype_name(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
