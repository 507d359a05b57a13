"""Packs the linear layers of a loaded module into 4 bits, one by one: two whole copies never stand side by side."""

from __future__ import annotations

import torch
from torch import nn
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from myserve_ui.core.model_info import OnProgress, ignore_progress
from myserve_ui.kernels.linear.int4 import Int4Linear, fits_int4

PACKING = "packing the weights into 4 bits"


@torch.inference_mode()
def pack_int4(model: PreTrainedModel, dtype: torch.dtype, *, on_progress: OnProgress = ignore_progress) -> int:
    """Replace every linear layer but the output embedding; what stays is converted to `dtype`. Returns how many.

    The output embedding stays whole, as in the other precisions: the kernel would round logits to bfloat16, where
    neighbouring ones tie, and 4 bits cost more there than in all layers together. So do layers whose sizes do not fit.
    """
    names = [name for name, part in model.named_modules() if _is_packable(part, model)]
    for done, name in enumerate(names):
        on_progress(PACKING, done / len(names))
        owner, _, child = name.rpartition(".")
        part = model.get_submodule(name)
        setattr(model.get_submodule(owner), child, _packed(part, dtype))
    convert_the_rest(model, dtype)
    return len(names)


def _is_packable(part: nn.Module, model: PreTrainedModel) -> bool:
    """Exactly a linear layer: a class derived from it may compute something else."""
    if part is model.get_output_embeddings() or type(part) not in (nn.Linear, Conv1D):
        return False
    return fits_int4(*weight_of(part).shape)


def weight_of(part: nn.Module) -> torch.Tensor:
    """[out_features, in_features]; Conv1D keeps it the other way round."""
    weight = part.get_parameter("weight").detach()
    return weight.t() if isinstance(part, Conv1D) else weight


def _packed(part: nn.Module, dtype: torch.dtype) -> Int4Linear:
    bias = dict(part.named_parameters()).get("bias")
    return Int4Linear(weight_of(part), None if bias is None else bias.detach().to(dtype)).eval()


def convert_the_rest(model: PreTrainedModel, dtype: torch.dtype) -> None:
    """Parameters only: buffers such as rotary frequencies and scales have dtypes of their own."""
    for parameter in model.parameters():
        if parameter.is_floating_point():
            parameter.data = parameter.data.to(dtype)
    if not any(parameter.is_floating_point() for parameter in model.parameters()):
        # Packed weights are buffers, and some families (olmo) have norms without any: of such a module transformers
        # could not tell the dtype and the device any more.
        model.register_parameter("no_numbers", nn.Parameter(torch.empty(0, dtype=dtype), requires_grad=False))
