"""Holds a module against the weights it was filled from: what is missing, left over, or of other sizes."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TypedDict

import torch
from safetensors import safe_open
from torch import nn
from transformers import PretrainedConfig, PreTrainedModel

from myserve_ui.errors import ModelLoadError
from myserve_ui.models.loading.checkpoint import Checkpoint
from myserve_ui.models.loading.stored_form import trace_of_form
from myserve_ui.models.loading.weight_files import StoredTensor, named

BUFFERS = re.compile(
    r"(^|\.)(inv_freq|original_inv_freq|rotary_emb\.\w+|position_ids|masked_bias|causal_mask|num_batches_tracked|"
    r"(attn|attention)\.bias)$"
)
"""What older versions saved though it is computed: tables of positions and masks."""

OTHER_PARTS = re.compile(
    r"(^|\.)(mtp\w*|nextn\w*|visual|vision_\w+|image_newline|multi_modal_projector|mm_projector|audio_\w+|embed_vision|"
    r"embed_audio|talker|code2wav|v_head)\."
)
"""Parts that a text model does without: heads that draft more tokens, eyes and ears, the value head of a training."""

CACHE_SCALES = re.compile(r"\.(k|v|kv|q|prob)_(proj\.(output_)?)?scale$")
"""Scales of keys and values in 8 bits: here they are kept whole."""

LAYER = re.compile(r"(?:^|\.)layers\.(\d+)\.")
DRAFT_LAYERS = ("num_nextn_predict_layers", "num_mtp_layers", "mtp_num_hidden_layers", "mtp_num_layers")
"""Settings that say how many layers after the last one draft more tokens."""

BOTH_AGAIN = "the two do not belong together, so download or copy both again"


class LoadingInfo(TypedDict):
    """What transformers tells of a load, with output_loading_info; its own list of harmless names is taken out."""

    missing_keys: set[str]
    unexpected_keys: set[str]
    mismatched_keys: set[tuple[str, tuple[int, ...], tuple[int, ...]]]
    """Name, the shape that is stored, and the shape that the module has."""


def refuse_misfits(report: LoadingInfo, checkpoint: Checkpoint, model: PreTrainedModel) -> None:
    """Raise ModelLoadError unless every tensor found its place in `model` and every place its tensor."""
    name, stored = checkpoint.name, checkpoint.tensors
    unread = {key for key in report["unexpected_keys"] if not _is_harmless(key, checkpoint)}
    if checkpoint.stored_form is None and (trace := trace_of_form(unread)):
        raise ModelLoadError(
            f"The weights of {name} are stored in fewer bits ({trace} belongs to that), but its config.json has no "
            "quantization_config that says how: download its config.json again."
        )
    if missing := report["missing_keys"]:
        raise ModelLoadError(
            f"The weights of {name} are incomplete, without {_count(missing)} ({named(missing)}). Download or "
            f"copy them again{', and config.json, which may belong to another model' if unread else ''}."
        )
    sizes = {key: (tuple(has), tuple(wants)) for key, has, wants in report["mismatched_keys"]} | dict(
        _packed_sizes(model)
    )
    if sizes:
        raise ModelLoadError(_wrong_sizes(name, sizes))
    if unread:
        raise ModelLoadError(
            f"The weights of {name} hold {_count(unread)} that its config.json has no place for "
            f"({named(unread)}): {BOTH_AGAIN}{_layers_hint(unread, checkpoint.config)}."
        )
    _refuse_integers(stored, checkpoint, report)


def _count(names: Collection[str]) -> str:
    return f"{len(names)} tensor{'' if len(names) == 1 else 's'}"


def _wrong_sizes(name: str, sizes: Mapping[str, tuple[tuple[int, ...], tuple[int, ...]]]) -> str:
    key = min(sizes)
    has, wants = (" x ".join(map(str, shape)) for shape in sizes[key])
    more = f", and {len(sizes) - 1} more" if len(sizes) > 1 else ""
    return (
        f"The weights of {name} have other sizes than its config.json says ({key} is {has} and should be {wants}{more})"
        f": {BOTH_AGAIN}."
    )


def _packed_sizes(model: PreTrainedModel) -> Iterator[tuple[str, tuple[tuple[int, ...], tuple[int, ...]]]]:
    """Layers in fewer bits whose weight is not of their size: transformers compares the sizes of whole ones only."""
    for key, layer in model.named_modules():
        if not isinstance(layer, nn.Linear) or type(layer) is nn.Linear:
            continue
        state = getattr(layer.weight, "quant_state", None)
        has = tuple(state.shape) if state is not None else tuple(layer.weight.shape)
        is_packed = state is not None or layer.weight.dtype is torch.int8
        if is_packed and has != (layer.out_features, layer.in_features):
            yield f"{key}.weight", (has, (layer.out_features, layer.in_features))


def _layers_hint(unread: Iterable[str], config: PretrainedConfig) -> str:
    count = getattr(config.get_text_config(), "num_hidden_layers", None)
    numbers = {int(found[1]) for key in unread if (found := LAYER.search(key))}
    if not isinstance(count, int) or not numbers or min(numbers) < count:
        return ""
    return f", or set num_hidden_layers there, which is {count}, to {max(numbers) + 1}"


def _is_harmless(key: str, checkpoint: Checkpoint) -> bool:
    if BUFFERS.search(key) or OTHER_PARTS.search(key) or CACHE_SCALES.search(key):
        return True
    return _is_draft_layer(key, checkpoint.config) or (key.endswith(".bias") and _is_zero(key, checkpoint))


def _is_draft_layer(key: str, config: PretrainedConfig) -> bool:
    text = config.get_text_config()
    layers, found = getattr(text, "num_hidden_layers", None), LAYER.search(key)
    drafts = [value for each in DRAFT_LAYERS if isinstance(value := getattr(text, each, None), int)]
    return bool(found and isinstance(layers, int) and layers <= int(found[1]) < layers + max(drafts, default=0))


def _is_zero(key: str, checkpoint: Checkpoint) -> bool:
    """A bias that a training kept at nothing, in a family that has none."""
    stored = checkpoint.tensors.get(key)
    if stored is None:
        return False
    with safe_open(stored.file, framework="pt") as tensors:
        return not tensors.get_tensor(key).any()


def _refuse_integers(stored: Mapping[str, StoredTensor], checkpoint: Checkpoint, report: LoadingInfo) -> None:
    """Whole numbers where weights should be are a form of fewer bits whose scales are lost."""
    if checkpoint.stored_form is not None:
        return
    whole = {
        key
        for key, tensor in stored.items()
        if tensor.dtype in ("I8", "U8", "I16", "U16") and len(tensor.shape) > 1 and not BUFFERS.search(key)
    } - report["unexpected_keys"]
    if whole:
        raise ModelLoadError(
            f"The weights of {checkpoint.name} are whole numbers in 8 or 16 bits ({named(whole)}) without the scales "
            "that make weights of them: choose the model that it was made from."
        )
