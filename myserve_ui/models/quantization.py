"""Precisions below the checkpoint's own: which are possible here, what they pack, and what bitsandbytes is asked."""

from __future__ import annotations

import copy
import importlib.util
import logging
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import MappingProxyType, ModuleType
from typing import Any

import torch
from torch import nn
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, PretrainedConfig
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING
from transformers.pytorch_utils import Conv1D

from myserve_ui.core.memory_report import MemoryReport
from myserve_ui.models.devices import SIXTEEN_BITS, find_device_problem

PRECISIONS = ("full", "nf4", "int8", "int4")
"""int8 and nf4 are bitsandbytes' and run on CPU and CUDA; int4 is torch's own kernel for the CPU."""

NOTES = MappingProxyType(
    {
        "int8": "LLM.int8 takes columns with outliers out for all tokens of a batch, so an answer may change with the "
        "requests beside it.",
        "int4": "Linear layers in 4 bits, a scale and a zero for 32 weights; their inputs and products are rounded to "
        "bfloat16.",
    }
)
"""What a user of a precision should know beside its name."""

CASTS_LOG = "bitsandbytes.autograd._functions"
"""Warns at every product that activations are rounded to 16 bits on their way to 8."""

FUSED_ROWS = 32
"""Output rows that bitsandbytes' fused CPU kernel takes at a time."""

logger = logging.getLogger(__name__)
WORTH_A_NOTE = 0.02
"""Of all parameters: norms and routers are less."""


def why_unavailable(precision: str, device: str) -> str | None:
    """Why `precision` is not possible on `device` (as in the settings), in a sentence; None if it is."""
    problem = None if precision == "full" else _find_problem(precision, device)
    return None if problem is None else f"not possible here, because {problem}"


def _find_problem(precision: str, device: str) -> str | None:
    if precision == "int4":
        return _find_int4_problem(device)
    if importlib.util.find_spec("bitsandbytes") is None:
        return "the package bitsandbytes is not installed"
    if device == "mps":
        return "bitsandbytes has no kernels of its own for mps"
    return find_device_problem(device)


def _find_int4_problem(device: str) -> str | None:
    on_cpu = device == "cpu" or (device == "auto" and not torch.cuda.is_available())
    if not on_cpu:
        return "its kernel is for the CPU only; ask for nf4, or set MYSERVE_DEVICE=cpu"
    if not hasattr(torch.ops.aten, "_weight_int4pack_mm_for_cpu"):
        return "this version of torch has no 4-bit kernel for the CPU"
    return None


def dtype_to_read(precision: str, dtype: torch.dtype, *, stored: torch.dtype | None) -> torch.dtype:
    """The dtype to read weights in that are served in `dtype`: int4 packs them as they are stored, in half the room."""
    return stored if precision == "int4" and stored in SIXTEEN_BITS else dtype


def expanded_itemsize(precision: str, dtype: torch.dtype) -> int | None:
    """Bytes of each number that 4-bit weights are written out in before a product; None where the kernel reads them."""
    return dtype.itemsize if precision == "nf4" and dtype is not torch.bfloat16 else None


def quantization_config(precision: str, dtype: torch.dtype) -> BitsAndBytesConfig | None:
    """What to ask of bitsandbytes for `precision`; None where it has no part. Products are computed in `dtype`."""
    if precision not in ("nf4", "int8"):
        return None
    import_bitsandbytes()
    return nf4_config(dtype) if precision == "nf4" else int8_config()


def nf4_config(dtype: torch.dtype) -> BitsAndBytesConfig:
    """4-bit NormalFloat weights in blocks of 64 with double quantisation, computing in `dtype`."""
    return BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=dtype,
    )


def int8_config() -> BitsAndBytesConfig:
    """LLM.int8: 8-bit weights and 8-bit activations, but for columns where an activation is above 6.

    Such a column is taken out for all tokens that are multiplied together, so an answer may change with its neighbours
    in the batch. Without it the default model loses half as much again, and large ones fall apart.
    """
    logging.getLogger(CASTS_LOG).setLevel(logging.ERROR)
    return BitsAndBytesConfig(load_in_8bit=True)


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


def count_packable(config: PretrainedConfig) -> int | None:
    """Numbers in layers that are packed, by a module without memory; None for a family whose code came with it."""
    if type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING:
        return None
    try:
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(copy.deepcopy(config))
    except Exception:  # what config.json cannot be made into is explained where the module is read
        logger.debug("counting the weights of %s failed", config.model_type, exc_info=True)
        return None
    head = model.get_output_embeddings()
    layers = (part for part in model.modules() if type(part) in (nn.Linear, Conv1D) and part is not head)
    return sum(layer.weight.numel() for layer in layers)


def note_of_kept(memory: MemoryReport) -> str | None:
    """A sentence about weights inside the layers that a lower precision left as they are; None if these are few."""
    kept = [group for group in memory.kept if "*" in group.pattern]
    share = sum(group.num_parameters for group in kept) / max(memory.num_parameters, 1)
    if not memory.quantized or share < WORTH_A_NOTE:
        return None
    largest = max(kept, key=lambda group: group.num_parameters)
    return (
        f"{share:.0%} of the weights stay in {largest.format}, such as {largest.pattern}: this precision packs linear "
        f"layers, and experts in one tensor are none. In all {memory.bits_per_parameter:.1f} bits a weight."
    )
