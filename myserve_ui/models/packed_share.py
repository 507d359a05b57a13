"""Which part of a model a lower precision packs: linear layers, but neither head nor embedding nor fused experts."""

from __future__ import annotations

import copy
import logging

import torch
from torch import nn
from transformers import AutoModelForCausalLM, PretrainedConfig
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING
from transformers.pytorch_utils import Conv1D

from myserve_ui.core.memory_report import MemoryReport

logger = logging.getLogger(__name__)

WORTH_A_NOTE = 0.02
"""Of all parameters: norms and routers are less."""


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
