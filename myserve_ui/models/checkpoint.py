"""Looks a model folder over before anything big is read, and refuses what cannot be served."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from transformers import AutoConfig, PretrainedConfig
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING

from myserve_ui.errors import ModelLoadError
from myserve_ui.models.load_errors import explain_file_errors


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A folder that passed: its configuration and how much its weights are."""

    folder: Path
    config: PretrainedConfig
    num_parameters: int
    """Stored numbers; tied tensors are stored once."""
    dtype: torch.dtype | None
    """As the configuration states it."""
    is_quantized: bool
    """Already in fewer bits on the disk."""


def read_checkpoint(folder: Path, name: str, *, trust_remote_code: bool) -> Checkpoint:
    """Check `folder` and read its configuration. Raises ModelLoadError that says what is wrong with `name`."""
    raw = _read_config_file(folder, name)
    _check_code(raw, name, trust_remote_code)
    config = _parse_config(folder, raw, name, trust_remote_code)
    _check_causal(config, raw, name)
    weights = sorted(folder.glob("*.safetensors"))
    if not weights:
        raise ModelLoadError(f"{name} has no safetensors weights: choose a model that has, or convert it.")
    dtype = getattr(config.get_text_config(), "dtype", None) or getattr(config, "dtype", None)
    return Checkpoint(
        folder=folder,
        config=config,
        num_parameters=_count_stored(weights),
        dtype=dtype if isinstance(dtype, torch.dtype) else None,
        is_quantized="quantization_config" in raw,
    )


def _read_config_file(folder: Path, name: str) -> dict[str, Any]:
    if not folder.is_dir():
        raise ModelLoadError(f"There is no folder {name!r}: check --model or MYSERVE_MODEL.")
    try:
        raw = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelLoadError(f"{name} has no config.json, so it is no transformers model.") from None
    except ValueError:
        raise ModelLoadError(f"The config.json of {name} is damaged: download or copy it again.") from None
    if not isinstance(raw, dict):
        raise ModelLoadError(f"The config.json of {name} is damaged: download or copy it again.")
    return raw


def _check_code(raw: dict[str, Any], name: str, trust_remote_code: bool) -> None:
    """Code that comes with a model runs with all rights of this process: only the operator may allow that."""
    known = raw.get("model_type") in CONFIG_MAPPING
    if raw.get("auto_map") and not known and not trust_remote_code:
        raise ModelLoadError(
            f"{name} needs code that comes with the model: read that code, then set TRUST_REMOTE_CODE=1 to run it."
        )


def _parse_config(folder: Path, raw: dict[str, Any], name: str, trust_remote_code: bool) -> PretrainedConfig:
    if raw.get("model_type") not in CONFIG_MAPPING and not (raw.get("auto_map") and trust_remote_code):
        kind = str(raw.get("model_type"))[:40]
        raise ModelLoadError(
            f"The architecture of {name} ({kind}) is not known to the installed transformers: choose another model."
        )
    with explain_file_errors(f"The config.json of {name}"):
        config = AutoConfig.from_pretrained(folder, trust_remote_code=trust_remote_code, local_files_only=True)
    assert isinstance(config, PretrainedConfig)
    return config


def _check_causal(config: PretrainedConfig, raw: dict[str, Any], name: str) -> None:
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
        raise ModelLoadError(f"{name} ({architecture or config.model_type}) is not a causal language model.")


def _count_stored(files: list[Path]) -> int:
    """Numbers in the files' headers; damage shows here, before anything big is read."""
    total = 0
    for path in files:
        with safe_open(path, framework="pt") as tensors:
            total += sum(math.prod(tensors.get_slice(key).get_shape()) for key in tensors.keys())  # noqa: SIM118
    return total
