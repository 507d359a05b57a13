"""Precisions below the checkpoint's own: which are possible here, and 4-bit weights that compute as asked."""

from __future__ import annotations

import importlib.util
import logging
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import torch
from transformers import BitsAndBytesConfig

from myserve_ui.models.devices import find_device_problem

PRECISIONS = ("full", "nf4")

FUSED_ROWS = 32
"""Output rows that bitsandbytes' fused CPU kernel takes at a time."""


def why_unavailable(precision: str, device: str) -> str | None:
    """Why `precision` is not possible on `device` (as in the settings), in a sentence; None if it is."""
    if precision == "full":
        return None
    if importlib.util.find_spec("bitsandbytes") is None:
        return "not possible here, because the package bitsandbytes is not installed"
    if device == "mps":
        return "not possible here, because bitsandbytes has no 4-bit kernels of its own for mps"
    if (problem := find_device_problem(device)) is not None:
        return f"not possible here, because {problem}"
    return None


def nf4_config(dtype: torch.dtype) -> BitsAndBytesConfig:
    """4-bit NormalFloat weights in blocks of 64 with double quantisation, computing in `dtype`."""
    import_bitsandbytes()
    return BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=dtype,
    )


def import_bitsandbytes() -> ModuleType:
    """The package, imported so that it cannot fetch code.

    On a CPU with AVX512-BF16 its import asks the package `kernels` for a kernel from the model hub, and warns where it
    gets none; without that package nothing is asked for and its own kernels serve.
    """
    with _kernels_hidden(), _log_hidden("bitsandbytes.backends.cpu.ops"), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # torch's words about itself, at bitsandbytes' import
        import bitsandbytes

    return bitsandbytes


def settle_4bit_layers(module: torch.nn.Module) -> int:
    """Make every 4-bit layer of `module` on the CPU compute in the dtype asked for; returns how many there are.

    On a CPU with AVX512-BF16 a layer repacks itself at its first forward: absmax is rounded to bfloat16 and products
    are in bfloat16 whatever dtype was asked, and an assertion fails where the sizes do not fit. So only layers that
    compute in bfloat16 anyway and whose sizes fit may do it, and they do it here: what is measured afterwards stays.
    """
    linear_4bit = import_bitsandbytes().nn.Linear4bit
    layers = [layer for layer in module.modules() if isinstance(layer, linear_4bit)]
    for layer in layers:
        layer.support_avx512bf16_for_cpu = bool(layer.support_avx512bf16_for_cpu) and _may_repack(layer)
        if layer.support_avx512bf16_for_cpu:
            _repack(layer)
    return len(layers)


def _may_repack(layer: Any) -> bool:
    state = layer.weight.quant_state
    rows, columns = state.shape
    fits = rows % FUSED_ROWS == 0 and columns % state.blocksize == 0
    return bool(layer.weight.device.type == "cpu" and layer.compute_dtype is torch.bfloat16 and fits)


@torch.inference_mode()
def _repack(layer: Any) -> None:
    """The layer does it itself, at a forward in eval mode."""
    columns = layer.weight.quant_state.shape[1]
    layer.eval()(torch.zeros(1, columns, dtype=layer.compute_dtype))


@contextmanager
def _kernels_hidden() -> Iterator[None]:
    if "bitsandbytes" in sys.modules:
        yield
        return
    missing = object()
    before = sys.modules.get("kernels", missing)
    sys.modules["kernels"] = None  # type: ignore[assignment]  # the import system's own way to say: cannot be imported
    try:
        yield
    finally:
        if before is missing:
            del sys.modules["kernels"]
        else:
            sys.modules["kernels"] = before  # type: ignore[assignment]


@contextmanager
def _log_hidden(name: str) -> Iterator[None]:
    log = logging.getLogger(name)
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(level)
