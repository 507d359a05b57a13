"""Looks a model folder over before anything big is read, and refuses what cannot be served."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import AutoConfig, PretrainedConfig
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING

from myserve_ui.errors import ModelLoadError
from myserve_ui.models.loading.errors import explain_file_errors
from myserve_ui.models.loading.json_files import (
    RawConfig,
    check_config_values,
    check_generation_config,
    read_json_object,
)
from myserve_ui.models.loading.stored_form import find_stored_form
from myserve_ui.models.loading.weight_files import (
    DTYPES,
    StoredTensor,
    adapter_alone,
    find_weight_files,
    named,
    read_headers,
)

GENERATION_CONFIG = "generation_config.json"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A folder that passed: its configuration and what its weights are."""

    folder: Path
    name: str
    config: PretrainedConfig
    tensors: Mapping[str, StoredTensor]
    """Those of the files that are read; tied ones are stored once."""
    stored_form: str | None
    """The form of fewer bits that the weights are in on the disk, such as bitsandbytes; None if they are whole."""

    @property
    def is_quantized(self) -> bool:
        """Already in fewer bits on the disk."""
        return self.stored_form is not None

    @property
    def num_parameters(self) -> int:
        """Stored numbers."""
        return sum(math.prod(tensor.shape) for tensor in self.tensors.values())

    @property
    def weight_bytes(self) -> int:
        """Bytes of the files that are read."""
        return sum(path.stat().st_size for path in {tensor.file for tensor in self.tensors.values()})

    @property
    def dtype(self) -> torch.dtype | None:
        """In which all numbers are stored, whatever the configuration says; None if there are several."""
        dtypes = {DTYPES.get(tensor.dtype) for tensor in self.tensors.values() if tensor.dtype not in ("BOOL", "I64")}
        return dtypes.pop() if len(dtypes) == 1 else None


def read_checkpoint(folder: Path, name: str, *, trust_remote_code: bool) -> Checkpoint:
    """Check `folder` and read its configuration. Raises ModelLoadError that says what is wrong with `name`."""
    raw = check_config_values(_read_config_file(folder, name), name)
    _check_code(raw, name, trust_remote_code)
    form = find_stored_form(raw, name)
    config = _parse_config(folder, raw, name, trust_remote_code)
    _check_causal(config, raw, name)
    if (folder / GENERATION_CONFIG).exists():
        check_generation_config(read_json_object(folder / GENERATION_CONFIG, name), name)
    tensors = read_headers(find_weight_files(folder, name), name)
    return Checkpoint(folder, name, config, tensors, form)


def _read_config_file(folder: Path, name: str) -> dict[str, object]:
    if folder.is_file():
        raise ModelLoadError(f"{name!r} is a file: give the folder that it is in, or a file that ends in .gguf.")
    if not folder.is_dir():
        raise ModelLoadError(f"There is no folder {name!r}: check --model or MYSERVE_MODEL.")
    try:
        return read_json_object(folder / "config.json", name)
    except FileNotFoundError:
        raise ModelLoadError(_why_no_config(folder, name)) from None


def _why_no_config(folder: Path, name: str) -> str:
    files = {path.name for path in folder.iterdir()}
    if "adapter_config.json" in files:
        return adapter_alone(name)
    if ggufs := {file for file in files if file.lower().endswith(".gguf")}:
        return f"{name} holds GGUF files ({named(ggufs)}): name one of them, with its folder, in --model."
    if "params.json" in files:
        return f"{name} is in its maker's own layout (params.json without config.json): choose a copy for transformers."
    if not files:
        return f"{name} is empty, without even a config.json: download or copy the model into it."
    return f"{name} has no config.json, so it is no transformers model: download or copy the whole model."


def _check_code(raw: RawConfig, name: str, trust_remote_code: bool) -> None:
    """Code that comes with a model runs with all rights of this process: only the operator may allow that."""
    known = raw.get("model_type") in CONFIG_MAPPING
    if raw.get("auto_map") and not known and not trust_remote_code:
        raise ModelLoadError(
            f"{name} needs code that comes with the model: read that code, then set TRUST_REMOTE_CODE=1 to run it."
        )


def _parse_config(folder: Path, raw: RawConfig, name: str, trust_remote_code: bool) -> PretrainedConfig:
    if raw.get("model_type") not in CONFIG_MAPPING and not (raw.get("auto_map") and trust_remote_code):
        kind = str(raw.get("model_type"))[:40]
        raise ModelLoadError(
            f"The architecture of {name} (model_type {kind}) is not known to the installed transformers: update it, or "
            "choose another model."
        )
    with explain_file_errors(f"The config.json of {name}"):
        config = AutoConfig.from_pretrained(folder, trust_remote_code=trust_remote_code, local_files_only=True)
    assert isinstance(config, PretrainedConfig)
    config._attn_implementation = None  # the engine brings its own; what was asked for when it was saved may be absent
    return config


def _check_causal(config: PretrainedConfig, raw: RawConfig, name: str) -> None:
    """Only a decoder that predicts the next token can be served."""
    architecture = next(iter(raw.get("architectures") or ()), "")
    if config.is_encoder_decoder:
        raise ModelLoadError(f"{name} is an encoder-decoder model: this server needs a causal language model.")
    if (raw.get("auto_map") or {}).get("AutoModelForCausalLM"):
        return
    model_class = MODEL_FOR_CAUSAL_LM_MAPPING.get(type(config), None)
    classes = model_class if isinstance(model_class, tuple) else (model_class,)
    expected = {each.__name__ for each in classes if each is not None}
    if not expected or (architecture and architecture not in expected):
        raise ModelLoadError(
            f"{name} ({architecture or config.model_type}) is not a causal language model: choose one that is made "
            "to continue text."
        )
