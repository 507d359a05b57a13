"""The quicker layers compute what the module's own do, through every door of the module, or the load goes back."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from transformers import LlamaConfig, PreTrainedModel

from myserve_ui.core.memory_report import count_weight_traffic
from myserve_ui.kernels import lean_layer
from myserve_ui.kernels.cpu_kernels import KernelMismatchError, convert_the_rest, install_cpu_kernels
from myserve_ui.kernels.lean_layer import LeanDecoderLayer
from myserve_ui.kernels.linear import fp16 as fp16_linear
from myserve_ui.kernels.linear.fp16 import Fp16Linear, can_compute_from_fp16, pack_whole
from myserve_ui.kernels.linear.int4 import Int4Linear, round_to_groups
from myserve_ui.kernels.linear.packed import PackedLinear, can_pack
from myserve_ui.kernels.stored_embedding import StoredEmbedding, halve_exactly, store_embedding
from myserve_ui.models.memory import measure_memory
from myserve_ui.models.tiny import FAMILIES, build_tiny_model

LEAN = {"llama", "mistral", "qwen2", "qwen3"}
PROMPTS = torch.tensor([[5, 70, 200, 31, 9, 8, 77, 3, 120, 14, 15, 16], [9, 9, 31, 200, 4, 5, 6, 7, 8, 240, 11, 12]])


needs_fp16_kernel = pytest.mark.skipif(not can_compute_from_fp16(), reason="this processor has no FBGEMM")


def in_half(family: str) -> nn.Module:
    """Its weights are numbers of float16, as those of most checkpoints."""
    return build_tiny_model(family, dtype=torch.float16).float()


def quick(family: str, *, in_int4: bool = False, build=build_tiny_model) -> nn.Module:
    model = build(family)
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


@needs_fp16_kernel
@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_weights_of_a_half_precision_checkpoint_are_read_in_16_bits_and_lose_nothing(monkeypatch, family):
    monkeypatch.setattr(fp16_linear, "BLOCK_ROWS", 64)  # else these are too small to be worth it
    model = quick(family, build=in_half)
    kinds = {type(part) for part in model.modules()}
    assert Fp16Linear in kinds
    assert PackedLinear not in kinds
    torch.testing.assert_close(logits_of(model, "eager"), logits_of(in_half(family), "eager"), rtol=1e-4, atol=2e-4)


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


@pytest.mark.parametrize("is_known", [True, False])
def test_a_tied_embedding_that_is_scaled_stays_in_16_bits_and_counts_no_parameter_twice(is_known, monkeypatch):
    model = build_tiny_model("gemma3", dtype=torch.bfloat16).float()
    model.lm_head.weight = model.model.embed_tokens.weight
    prompt, count = torch.arange(20)[None], sum(parameter.numel() for parameter in model.parameters())
    expected = model(prompt).logits
    if not is_known:
        monkeypatch.setattr("myserve_ui.kernels.cpu_kernels.store_embedding", lambda *_, **__: None)
    assert install_cpu_kernels(model, torch.float32, in_int4=False)
    report = measure_memory(model)
    assert report.num_parameters == count
    (embedding,) = [group for group in report.groups if "embed_tokens.weight" in group.pattern]
    assert embedding.format in (("float16", "bfloat16") if is_known else ("float32",))
    torch.testing.assert_close(model(prompt).logits, expected, rtol=1e-4, atol=1e-3)


def test_an_embedding_whose_class_computes_something_else_is_left_alone():
    class Shifted(nn.Embedding):
        def forward(self, token_ids: torch.Tensor) -> torch.Tensor:
            return super().forward(token_ids) + 1

    assert store_embedding(Shifted(3, 4), torch.float32, copies_head=False) is None
    assert store_embedding(nn.Linear(3, 4), torch.float32, copies_head=False) is None
    plain = nn.Embedding(3, 4)
    stored = store_embedding(plain, torch.float32, copies_head=True)
    assert torch.equal(stored(torch.tensor([2])), plain(torch.tensor([2])))


def test_an_embedding_is_halved_only_where_no_number_changes():
    exact = torch.randn(4, 4).to(torch.bfloat16).float()
    assert halve_exactly(exact).dtype in (torch.float16, torch.bfloat16)
    assert halve_exactly(torch.tensor([1.0, 1.0 + 2**-20])) is None
    rows = StoredEmbedding(halve_exactly(exact), torch.float32, copies_head=False)(torch.tensor([[2, 0]]))
    assert torch.equal(rows[0], exact[[2, 0]])


def test_no_row_no_bias_and_a_bias_pass_through_a_packed_layer():
    weight, bias = torch.randn(8, 4).half().float(), torch.randn(8)
    kinds = (PackedLinear, Fp16Linear) if can_compute_from_fp16() else (PackedLinear,)
    for inputs in (torch.randn(0, 4), torch.randn(1, 3, 4), torch.randn(2, 8)[:, :4]):
        for layer in (kind(weight, with_bias) for kind in kinds for with_bias in (None, bias)):
            expected = nn.functional.linear(inputs, weight, layer.bias)
            torch.testing.assert_close(layer(inputs), expected)
            torch.testing.assert_close(layer.add_to(torch.ones_like(expected), inputs), expected + 1)


@needs_fp16_kernel
def test_the_smallest_and_largest_numbers_of_float16_are_multiplied_exactly():
    numbers = [2.0**-24, -(2.0**-24) * 3, 2.0**-14, 65504.0, -65504.0, 0.0, 1.0, -1.0 - 2**-10]
    weight = torch.tensor(numbers).repeat(16, 1)
    layer = Fp16Linear(weight)
    for column, number in enumerate(numbers):
        assert layer(torch.eye(8)[column : column + 1]).unique().tolist() == [number]


@needs_fp16_kernel
@pytest.mark.parametrize("number", [1 + 2**-12, 2.0**-26, 65520.0, float("inf"), float("nan")])
def test_one_number_that_float16_does_not_hold_keeps_a_weight_in_float32(number):
    weight = torch.ones(16, 512)
    assert isinstance(pack_whole(weight), Fp16Linear)
    weight[3, 5] = number
    assert isinstance(pack_whole(weight), PackedLinear) == (number != float("inf"))
    torch.testing.assert_close(pack_whole(weight)(torch.ones(1, 512)), weight.sum(1)[None], equal_nan=True)


@needs_fp16_kernel
@pytest.mark.parametrize(
    ("width", "kind"), [(64, PackedLinear), (255, PackedLinear), (256, Fp16Linear), (576, Fp16Linear)]
)
def test_a_weight_that_whole_blocks_would_make_larger_stays_in_float32(width, kind):
    assert type(pack_whole(torch.ones(16, width))) is kind


@needs_fp16_kernel
def test_a_half_precision_weight_is_weighed_with_the_room_its_layout_takes():
    report = measure_memory(nn.ModuleDict({"part": pack_whole(torch.ones(64, 576), torch.zeros(64))}))
    assert report.num_parameters == 64 * 576 + 64
    assert report.weight_bytes == 2 * 64 * 1024 + 4 * 64
    assert count_weight_traffic(report) == 2 * 64 * 576 + 4 * 64


def test_other_devices_and_dtypes_are_not_packed():
    assert not can_pack(torch.float16, torch.device("cpu"))
    assert not can_pack(torch.float32, torch.device("meta"))


def test_a_module_all_of_whose_weights_are_packed_still_says_its_dtype_and_device():
    class Bare(PreTrainedModel):
        config_class = LlamaConfig

        def __init__(self) -> None:
            super().__init__(LlamaConfig())
            self.part = nn.Linear(4, 4, bias=False)

    model = Bare()
    model.part = PackedLinear(model.part.weight)
    convert_the_rest(model, torch.float32)
    assert (model.dtype, model.device) == (torch.float32, torch.device("cpu"))
