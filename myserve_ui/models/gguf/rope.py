"""Reads the stretched positions of Llama 3.1 and later out of a GGUF file: transformers passes over that tensor."""

from __future__ import annotations

import math

import torch
from transformers import PretrainedConfig

from myserve_ui.errors import ModelLoadError
from myserve_ui.models.gguf.file import ROPE_FACTORS, GgufFile

LOW, HIGH, ORIGINAL = 1.0, 4.0, 8192
"""What all models with these factors were trained with; the factors are held against it."""

CLOSE = 1e-3


def restore_rope_factors(file: GgufFile, config: PretrainedConfig) -> None:
    """Write into `config` what the factors of `file` say. Raises ModelLoadError if they say something else."""
    if (stored := file.find(ROPE_FACTORS)) is None:
        return
    factors = stored.numbers().float()
    if bool((factors == 1).all()):
        return
    rope = dict(getattr(config, "rope_parameters", None) or {})
    theta = rope.get("rope_theta")
    stretch = round(float(factors.max()), 3)
    if not isinstance(theta, int | float) or not _is_llama3(factors, float(theta), stretch):
        raise ModelLoadError(
            f"{file.name} stretches its positions in a way that is not known here ({ROPE_FACTORS}): choose the model's "
            "safetensors, whose config.json says which way it is."
        )
    config.rope_parameters = {
        "rope_type": "llama3",
        "rope_theta": theta,
        "factor": stretch,
        "low_freq_factor": LOW,
        "high_freq_factor": HIGH,
        "original_max_position_embeddings": ORIGINAL,
    }


def _is_llama3(factors: torch.Tensor, theta: float, stretch: float) -> bool:
    """Whether `factors` [head_dim / 2] are those of Llama's formula with a stretch of `stretch`."""
    exponents = torch.arange(len(factors), dtype=torch.float64) / len(factors)
    wavelengths = 2 * math.pi * theta**exponents
    smooth = ((ORIGINAL / wavelengths - LOW) / (HIGH - LOW)).clamp(0.0, 1.0)
    expected = 1 / ((1 - smooth) / stretch + smooth)
    return bool(torch.allclose(factors.double(), expected, rtol=CLOSE))
