"""Puts quicker layers in the place of a module's own on a CPU, and holds each against the one it replaces."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import nn
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from myserve_ui.core.machine import trim_heap
from myserve_ui.core.model_info import OnProgress, ignore_progress
from myserve_ui.errors import MyServeError
from myserve_ui.kernels.lean_layer import ComplexRotary, LeanDecoderLayer, LeanNorm, find_lean_layers
from myserve_ui.kernels.linear.fp16 import pack_whole
from myserve_ui.kernels.linear.int4 import Int4Linear, fits_int4, round_to_groups
from myserve_ui.kernels.linear.packed import LinearKernel, LinearKernelFactory, can_pack
from myserve_ui.kernels.stored_embedding import store_embedding
from myserve_ui.kernels.threads import compute_workers

AT_ONCE = 2
"""Layers that are packed side by side: the kernels' own packing uses one core. Each may stand twice for a moment."""
LAYING_OUT = "laying out the weights for this processor"
CHECK_TOKENS = 5
TRIED_TOKENS = (5, 6)
ROUNDING = {torch.float32: 1e-4, torch.bfloat16: 3e-2}
"""Largest difference of a result, as a share of the largest: sums in another order, products of this dtype."""

PACKING = "packing the weights into 4 bits"


class KernelMismatchError(Exception):
    """A quicker layer does not compute what the module's own does."""


@dataclass(frozen=True, slots=True)
class _Form:
    """How lean layers store their weights."""

    make: LinearKernelFactory
    rounded: Callable[[torch.Tensor], torch.Tensor]
    """A weight as a plain layer needs it to compute the same."""
    tolerance: float


@torch.inference_mode()
def install_cpu_kernels(
    model: PreTrainedModel, dtype: torch.dtype, *, in_int4: bool, on_progress: OnProgress = ignore_progress
) -> bool:
    """Replace the layers of `model` by quicker ones that compute in `dtype`; False if nothing could be done.

    Never more than AT_ONCE layers at a time: two copies of all weights do not stand side by side. Raises
    KernelMismatchError; the module is of no use then.
    """
    if not can_pack(dtype, model.device):
        return False
    try:
        return _install(model, dtype, in_int4=in_int4, on_progress=on_progress)
    except (KernelMismatchError, MyServeError, MemoryError):
        raise
    except Exception as error:  # a family may look into its layers, and find others there than its own
        line = next(iter(str(error).splitlines()), "")[:120]
        raise KernelMismatchError(f"{type(error).__name__}: {line}") from error


def _install(model: PreTrainedModel, dtype: torch.dtype, *, in_int4: bool, on_progress: OnProgress) -> bool:
    layers = find_lean_layers(model) if dtype is torch.float32 else None
    if layers is not None and (not in_int4 or _fit_int4(layers)):
        _replace_layers(model, layers, _int4_form() if in_int4 else _whole_form(), on_progress)
    elif in_int4:
        return False
    else:
        _pack_linears(model, on_progress)
    _pack_head(model, dtype)
    convert_the_rest(model, dtype)
    if layers is None:
        model(input_ids=torch.tensor([TRIED_TOKENS]), use_cache=False)  # lean layers were tried one by one
    return True


def _whole_form() -> _Form:
    return _Form(pack_whole, lambda weight: weight, ROUNDING[torch.float32])


def _int4_form() -> _Form:
    return _Form(Int4Linear, round_to_groups, ROUNDING[torch.bfloat16])


def _fit_int4(layers: nn.ModuleList) -> bool:
    return all(fits_int4(*part.weight.shape) for part in layers.modules() if isinstance(part, nn.Linear))


def _replace_layers(model: PreTrainedModel, layers: nn.ModuleList, form: _Form, on_progress: OnProgress) -> None:
    base = model.base_model
    rotary = ComplexRotary(base.rotary_emb)
    workers = compute_workers(min(AT_ONCE, torch.get_num_threads()), "packing")
    try:
        packed = [workers.submit(_make_lean, form, rotary, layer) for layer in layers]
        for index in range(len(layers)):
            on_progress(LAYING_OUT, index / len(layers))
            layers[index] = packed[index].result()
            trim_heap()
    finally:
        workers.shutdown(cancel_futures=True)  # the rest, if one layer failed
    base.rotary_emb = rotary
    base.norm = LeanNorm(base.norm.float())


@torch.inference_mode()  # here too, as it holds for one thread
def _make_lean(form: _Form, rotary: ComplexRotary, layer: nn.Module) -> LeanDecoderLayer:
    plain = layer.float()
    lean = LeanDecoderLayer(plain, form.make)
    for part in plain.modules():
        if isinstance(part, nn.Linear):
            part.weight.data = form.rounded(part.weight.data)
    _check_layer(lean, plain, rotary, form.tolerance)
    return lean


def _check_layer(lean: LeanDecoderLayer, plain: nn.Module, rotary: ComplexRotary, tolerance: float) -> None:
    """A few tokens of noise through both, by the attention of the module itself."""
    hidden = _noise(1, CHECK_TOKENS, lean.qkv.in_features)
    positions = torch.arange(CHECK_TOKENS)[None]
    mask = torch.full((1, 1, CHECK_TOKENS, CHECK_TOKENS), float("-inf")).triu(1)
    expected = plain(hidden, attention_mask=mask, position_embeddings=rotary.rotary(hidden, positions))
    actual = lean(hidden, attention_mask=mask, position_embeddings=rotary(hidden, positions))
    # What both add to the residual is compared: the residual itself would hide it.
    _refuse_if_apart(actual - hidden, expected - hidden, tolerance, type(plain).__name__)


def _pack_linears(model: PreTrainedModel, on_progress: OnProgress) -> None:
    """Every linear layer by itself: what any family of models allows."""

    def report(share: float) -> None:
        trim_heap()  # or C's allocator would keep what the layers before have freed
        on_progress(LAYING_OUT, share)

    _replace_linears(model, lambda _part: True, _packed, report)


def _replace_linears(
    model: PreTrainedModel,
    suits: Callable[[nn.Module], bool],
    make: Callable[[nn.Module], LinearKernel],
    on_share: Callable[[float], None],
) -> int:
    """Put what `make` makes in the place of each linear layer that `suits`, but for the head; returns how many.

    Exactly linear layers: a class derived from one may compute something else.
    """
    head = model.get_output_embeddings()
    linears = [name for name, part in model.named_modules() if type(part) in (nn.Linear, Conv1D) and part is not head]
    names = [name for name in linears if suits(model.get_submodule(name))]
    for done, name in enumerate(names):
        on_share(done / len(names))
        owner, _, child = name.rpartition(".")
        setattr(model.get_submodule(owner), child, make(model.get_submodule(name)))
    return len(names)


def _pack_head(model: PreTrainedModel, dtype: torch.dtype) -> None:
    """The head, and beside it the embedding: a packed weight cannot be looked up in, so a tied pair parts."""
    head, embedding = model.get_output_embeddings(), model.get_input_embeddings()
    if type(head) is not nn.Linear:
        return
    is_tied = head.weight is embedding.weight
    model.set_output_embeddings(_packed(head.to(dtype) if not is_tied else _untied(head, dtype)))
    if (stored := store_embedding(embedding, dtype, copies_head=is_tied)) is not None:
        model.set_input_embeddings(stored)
    elif is_tied:
        embedding.copies_head = True  # for whoever counts parameters


def _untied(head: nn.Linear, dtype: torch.dtype) -> nn.Linear:
    alone = nn.Linear(head.in_features, head.out_features, bias=head.bias is not None, device="meta")
    alone.weight = nn.Parameter(head.weight.data.to(dtype), requires_grad=False)
    if head.bias is not None:
        alone.bias = nn.Parameter(head.bias.data.to(dtype), requires_grad=False)
    return alone


def _packed(layer: nn.Module) -> LinearKernel:
    weight = weight_of(layer)
    bias = layer.bias if isinstance(layer.bias, torch.Tensor) else None
    packed = pack_whole(weight, bias)
    inputs = _noise(CHECK_TOKENS, packed.in_features).to(weight.dtype)
    _refuse_if_apart(packed(inputs), layer(inputs), ROUNDING[weight.dtype], type(layer).__name__)
    return packed


def _noise(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


def _refuse_if_apart(actual: torch.Tensor, expected: torch.Tensor, tolerance: float, name: str) -> None:
    difference = ((actual - expected).abs().max() / expected.abs().max().clamp_min(1e-6)).item()
    if math.isnan(difference):
        raise KernelMismatchError(f"{name}: results are no numbers")
    if difference > tolerance:
        raise KernelMismatchError(f"{name}: results differ by {difference:.2%} of the largest")


@torch.inference_mode()
def pack_int4(model: PreTrainedModel, dtype: torch.dtype, *, on_progress: OnProgress = ignore_progress) -> int:
    """Replace every linear layer but the output embedding; what stays is converted to `dtype`. Returns how many.

    The output embedding stays whole, as in the other precisions: the kernel would round logits to bfloat16, where
    neighbouring ones tie, and 4 bits cost more there than in all layers together. So do layers whose sizes do not fit.
    """
    count = _replace_linears(
        model,
        lambda part: fits_int4(*weight_of(part).shape),
        lambda part: _in_int4(part, dtype),
        partial(on_progress, PACKING),
    )
    convert_the_rest(model, dtype)
    return count


def weight_of(part: nn.Module) -> torch.Tensor:
    """[out_features, in_features]; Conv1D keeps it the other way round."""
    weight = part.get_parameter("weight").detach()
    return weight.t() if isinstance(part, Conv1D) else weight


def _in_int4(part: nn.Module, dtype: torch.dtype) -> Int4Linear:
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
