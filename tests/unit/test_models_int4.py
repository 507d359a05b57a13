"""The 4-bit layer multiplies with the weight it stands for; a packed model keeps its head and its meaning."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from myserve_ui.kernels.cpu_kernels import PACKING, pack_int4
from myserve_ui.kernels.linear.int4 import GROUP_SIZE, Int4Linear, dequantize_groups, fits_int4, quantize_in_groups
from myserve_ui.models.memory import measure_memory
from myserve_ui.models.tiny import build_tiny_model


def random_weight(rows: int, columns: int, *, seed: int = 0) -> torch.Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(("rows", "columns"), [(16, 32), (48, 96), (64, 160)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_layer_multiplies_with_its_dequantized_weight(rows, columns, dtype):
    weight, bias = random_weight(rows, columns), random_weight(1, rows)[0].to(dtype)
    layer = Int4Linear(weight, bias)
    x = random_weight(6, columns, seed=1).to(dtype).view(2, 3, columns)
    expected = x.to(torch.bfloat16).double() @ dequantize_groups(*quantize_in_groups(weight)).double().T + bias.double()
    output = layer(x)
    assert (output.shape, output.dtype) == ((2, 3, rows), dtype)
    torch.testing.assert_close(output.double(), expected, rtol=1e-2, atol=1e-2 * expected.abs().max().item())


def test_no_weight_moves_by_more_than_half_a_step():
    weight = random_weight(32, 64)
    levels, scales, zeros = quantize_in_groups(weight)
    distance = (dequantize_groups(levels, scales, zeros) - weight).abs().unflatten(1, (-1, GROUP_SIZE)).amax(-1)
    rounding_of_the_ends = 2**-8 * weight.abs().max()
    assert (distance <= scales / 2 + rounding_of_the_ends).all()
    assert (levels.min(), levels.max()) == (0, 15)


def test_a_weight_that_is_on_the_grid_comes_back_exactly():
    levels = torch.arange(16).repeat(16, 2)  # every level in every group of 32
    weight = dequantize_groups(levels, torch.full((16, 1), 0.25), torch.full((16, 1), -0.5))
    assert torch.equal(dequantize_groups(*quantize_in_groups(weight)), weight)


@pytest.mark.parametrize("value", [0.0, 3.0, -1e-30])
def test_a_group_of_equal_weights_is_kept(value):
    weight = torch.full((16, 32), value)
    torch.testing.assert_close(dequantize_groups(*quantize_in_groups(weight)), weight, rtol=2**-8, atol=1e-30)
    assert Int4Linear(weight)(torch.ones(1, 32)).isfinite().all()


def test_a_row_does_not_depend_on_its_neighbours():
    layer, x = Int4Linear(random_weight(48, 64)), random_weight(20, 64, seed=1)
    together = layer(x)
    for first, last in [(0, 1), (3, 5), (2, 19)]:
        assert torch.equal(layer(x[first:last]), together[first:last])


def test_sizes_that_the_kernel_refuses_are_known():
    assert fits_int4(16, 32)
    assert not fits_int4(24, 32)
    assert not fits_int4(16, 48)


@pytest.mark.parametrize("family", ["llama", "qwen2", "gpt2", "phi3"])
def test_a_packed_model_keeps_its_head_and_its_direction(family):
    full, packed = build_tiny_model(family), build_tiny_model(family)
    stages: list[tuple[str, float | None]] = []
    count = pack_int4(packed, torch.float32, on_progress=lambda stage, fraction: stages.append((stage, fraction)))
    assert count == sum(isinstance(part, Int4Linear) for part in packed.modules()) > 0
    assert type(packed.get_output_embeddings()) is nn.Linear
    assert stages[0] == (PACKING, 0.0)
    assert [fraction for _, fraction in stages] == sorted({fraction for _, fraction in stages})
    prompt = torch.tensor([[5, 70, 200, 31]])
    with torch.inference_mode():
        a, b = (model(prompt).logits.flatten() for model in (full, packed))
    assert 0.8 < torch.nn.functional.cosine_similarity(a, b, dim=0) < 0.99999


def test_a_layer_whose_sizes_do_not_fit_stays_whole():
    packed = build_tiny_model("gpt2")  # 48 wide: only the product from 96 to 48 has whole groups
    pack_int4(packed, torch.float32)
    formats = {group.pattern: group.format for group in measure_memory(packed).groups}
    assert formats["transformer.h.*.mlp.c_proj.weight"] == "int4"
    assert formats["transformer.h.*.mlp.c_proj.bias"] == "float32"
    assert formats["transformer.h.*.attn.c_attn.weight"] == "float32"


def test_weights_read_in_16_bits_are_served_in_the_dtype_asked_for():
    packed = build_tiny_model("qwen2", dtype=torch.bfloat16)
    pack_int4(packed, torch.float32)
    assert packed.dtype is torch.float32
    assert {parameter.dtype for parameter in packed.parameters()} == {torch.float32}
    assert packed(torch.tensor([[1, 2]])).logits.dtype is torch.float32
