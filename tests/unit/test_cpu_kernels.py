"""The quicker layers compute what the module's own do, through every door of the module, or the load goes back."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from myserve_ui.models import lean_layer
from myserve_ui.models.cpu_kernels import KernelMismatchError, install_cpu_kernels
from myserve_ui.models.int4_linear import Int4Linear, round_to_groups
from myserve_ui.models.lean_layer import LeanDecoderLayer
from myserve_ui.models.memory import measure_memory
from myserve_ui.models.packed_linear import PackedLinear, can_pack
from myserve_ui.models.stored_embedding import StoredEmbedding, halve_exactly
from myserve_ui.models.tiny import FAMILIES, build_tiny_model

LEAN = {"llama", "mistral", "qwen2", "qwen3"}
PROMPTS = torch.tensor([[5, 70, 200, 31, 9, 8, 77, 3, 120, 14, 15, 16], [9, 9, 31, 200, 4, 5, 6, 7, 8, 240, 11, 12]])


def quick(family: str, *, in_int4: bool = False) -> nn.Module:
    model = build_tiny_model(family)
    assert install_cpu_kernels(model, torch.float32, in_int4=in_int4)
    return model


@torch.inference_mode()
def logits_of(model: nn.Module, attention: str) -> torch.Tensor:
    model.set_attn_implementation(attention)
    return model(PROMPTS).logits


@pytest.mark.parametrize(
    ("family", "attention"),
    [*((name, "eager") for name in sorted(FAMILIES)), *((name, "sdpa") for name in sorted(LEAN))],
)
def test_logits_are_those_of_the_modules_own_layers(family, attention):
    model = quick(family)
    kinds = {type(part) for part in model.modules()}
    assert (LeanDecoderLayer in kinds) == (family in LEAN)
    assert PackedLinear in kinds
    torch.testing.assert_close(
        logits_of(model, attention), logits_of(build_tiny_model(family), attention), rtol=1e-4, atol=2e-4
    )


@pytest.mark.parametrize("family", sorted(LEAN))
def test_generate_with_padding_and_a_cache_says_the_same(family):
    mask = torch.ones_like(PROMPTS)
    mask[1, :5] = 0
    with torch.inference_mode():
        answers = [
            model.generate(PROMPTS, attention_mask=mask, do_sample=False, max_new_tokens=20, min_new_tokens=20)
            for model in (quick(family), build_tiny_model(family))
        ]
    assert answers[0].tolist() == answers[1].tolist()


@pytest.mark.parametrize("family", ["llama", "qwen2"])
def test_int4_in_lean_layers_is_the_plain_model_with_rounded_weights(family):
    rounded = build_tiny_model(family)
    for name, part in rounded.named_modules():
        if isinstance(part, nn.Linear) and "layers" in name:
            part.weight.data = round_to_groups(part.weight.data)
    model = quick(family, in_int4=True)
    assert {type(part) for part in model.modules() if "Linear" in type(part).__name__} == {Int4Linear, PackedLinear}
    difference = (logits_of(model, "sdpa") - logits_of(rounded, "sdpa")).abs().max()
    assert difference < 0.05 * logits_of(rounded, "sdpa").abs().max()  # the kernel rounds activations to bfloat16


def test_int4_of_a_family_without_lean_layers_is_left_to_others():
    assert not install_cpu_kernels(build_tiny_model("gpt2"), torch.float32, in_int4=True)


def test_a_layer_that_computes_something_else_is_refused(monkeypatch):
    monkeypatch.setattr(lean_layer, "_in_pairs", lambda rows, head_dim: rows)
    with pytest.raises(KernelMismatchError, match="LlamaDecoderLayer: results differ by"):
        quick("llama")


def test_a_packed_weight_is_weighed_and_a_tied_embedding_counts_no_parameter_twice():
    embedding = StoredEmbedding(torch.zeros(3, 4), torch.float32, copies_head=True)
    report = measure_memory(nn.Sequential(PackedLinear(torch.randn(8, 4), torch.randn(8)), embedding))
    assert (report.num_parameters, report.weight_bytes) == (8 * 4 + 8, 4 * (8 * 4 + 8) + 4 * 3 * 4)


def test_an_embedding_is_halved_only_where_no_number_changes():
    exact = torch.randn(4, 4).to(torch.bfloat16).float()
    assert halve_exactly(exact).dtype in (torch.float16, torch.bfloat16)
    assert halve_exactly(torch.tensor([1.0, 1.0 + 2**-20])) is None
    rows = StoredEmbedding(halve_exactly(exact), torch.float32, copies_head=False)(torch.tensor([[2, 0]]))
    assert torch.equal(rows[0], exact[[2, 0]])


def test_no_row_no_bias_and_a_bias_pass_through_a_packed_layer():
    weight, bias = torch.randn(8, 4), torch.randn(8)
    for inputs in (torch.randn(0, 4), torch.randn(1, 3, 4), torch.randn(2, 8)[:, :4]):
        for layer in (PackedLinear(weight), PackedLinear(weight, bias)):
            expected = nn.functional.linear(inputs, weight, layer.bias)
            torch.testing.assert_close(layer(inputs), expected)
            torch.testing.assert_close(layer.add_to(torch.ones_like(expected), inputs), expected + 1)


def test_other_devices_and_dtypes_are_not_packed():
    assert not can_pack(torch.float16, torch.device("cpu"))
    assert not can_pack(torch.float32, torch.device("meta"))
