"""Every byte once, and the parameters that the bytes stand for."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from transformers import AutoConfig

from myserve_ui.kernels.linear.int4 import Int4Linear
from myserve_ui.models.memory import count_kv_bytes_per_token, measure_memory
from myserve_ui.models.quantization import import_bitsandbytes
from myserve_ui.models.tiny import build_tiny_model

ROWS, COLUMNS = 1536, 576


def nf4_layer(rows: int, columns: int) -> nn.Module:
    linear_4bit = import_bitsandbytes().nn.Linear4bit
    layer = linear_4bit(columns, rows, bias=False, quant_type="nf4", compute_dtype=torch.float32)
    layer.load_state_dict(nn.Linear(columns, rows, bias=False).state_dict())
    return layer.to("cpu")


def int8_layer(rows: int, columns: int) -> nn.Module:
    layer = import_bitsandbytes().nn.Linear8bitLt(columns, rows, bias=False, has_fp16_weights=False)
    layer.load_state_dict(nn.Linear(columns, rows, bias=False).state_dict())
    return layer.to("cpu").eval()


def int4_layer(rows: int, columns: int) -> nn.Module:
    return Int4Linear(torch.randn(rows, columns))


def test_tied_weights_count_once_and_are_named():
    first, second = nn.Linear(8, 4, bias=False), nn.Linear(8, 4, bias=False)
    second.weight = first.weight
    both = nn.Sequential(first, second)
    both.register_buffer("table", torch.zeros(10, dtype=torch.float16))
    report = measure_memory(both)
    assert report.num_parameters == 32
    assert report.weight_bytes == 32 * 4 + 20
    assert report.bytes_by_format() == {"float32": 128, "float16": 20}
    assert report.tied == (("0.weight", "1.weight"),)
    assert (report.quantized, report.bits_per_quantized_parameter) == ((), None)


def test_a_packed_weight_counts_its_states_and_the_numbers_it_stands_for():
    report = measure_memory(nn.ModuleDict({"part": nf4_layer(64, 512)}))
    blocks = 512 * 64 // 64
    nested = (blocks // 256) * 4 + 256 * 4 + 4  # absmax of absmax, its code, the offset
    assert report.num_parameters == 512 * 64
    assert [group.pattern for group in report.quantized] == ["part.weight"]
    assert report.quantized[0].state_bytes == blocks + 16 * 4 + nested
    assert report.weight_bytes == 512 * 64 // 2 + blocks + 16 * 4 + nested


@pytest.mark.parametrize(
    ("make", "format_name", "bits"),
    [
        (nf4_layer, "nf4", 4 + 8 / 64 + 32 / (64 * 256)),  # a byte of absmax for 64, 4 bytes over 256 of these
        (int8_layer, "int8", 8 + 32 / COLUMNS),  # a float for each row
        (int4_layer, "int4", 4 + 32 / 32),  # scale and zero in 16 bits for 32
    ],
)
def test_bits_of_a_quantized_weight_are_within_a_percent_of_the_arithmetic(make, format_name, bits):
    report = measure_memory(nn.ModuleDict({"part": make(ROWS, COLUMNS)}))
    assert [group.format for group in report.groups] == [format_name]
    assert report.num_parameters == ROWS * COLUMNS
    assert report.bits_per_quantized_parameter == pytest.approx(bits, rel=0.01)


def test_an_8_bit_layer_weighs_the_same_after_its_first_forward():
    layer = nn.ModuleDict({"part": int8_layer(64, 96)})
    before = measure_memory(layer)
    with torch.inference_mode():
        layer["part"](torch.ones(1, 96, dtype=torch.float16))
    assert measure_memory(layer) == before


def test_layers_of_one_name_are_one_group():
    model = build_tiny_model("llama")
    report = measure_memory(model)
    queries = next(group for group in report.groups if group.pattern == "model.layers.*.self_attn.q_proj.weight")
    assert (queries.num_tensors, queries.num_parameters, queries.weight_bytes) == (3, 3 * 64 * 64, 3 * 64 * 64 * 4)
    assert report.num_parameters == sum(parameter.numel() for parameter in model.parameters())
    assert report.kept == report.groups


def test_an_embedding_that_is_not_the_head_is_known_as_a_lookup():
    untied, tied = build_tiny_model("llama"), build_tiny_model("llama")
    tied.lm_head.weight = tied.model.embed_tokens.weight
    assert measure_memory(untied).lookup == "model.embed_tokens.weight"
    assert measure_memory(tied).lookup is None


def test_half_precision_halves_the_parameters_bytes():
    full, half = (measure_memory(build_tiny_model("gpt2", dtype=dtype)) for dtype in (torch.float32, torch.float16))
    assert full.num_parameters == half.num_parameters
    assert full.bytes_by_format()["float32"] == 2 * half.bytes_by_format()["float16"]


def test_keys_and_values_are_counted_over_key_heads_and_layers():
    config = build_tiny_model("qwen3").config
    assert count_kv_bytes_per_token(config, torch.float32) == 2 * 3 * 2 * 32 * 4
    assert count_kv_bytes_per_token(AutoConfig.for_model("gpt2"), torch.float16) == 2 * 12 * 768 * 2


def test_keys_and_values_of_layers_that_differ_are_added_up():
    config = AutoConfig.for_model("llama", num_hidden_layers=3, num_attention_heads=4, hidden_size=64, head_dim=16)
    config.num_key_value_heads = 4
    config.per_layer_config = {1: {"num_attention_heads": 2, "num_key_value_heads": 1}}
    assert count_kv_bytes_per_token(config, torch.float32) == 2 * (4 + 1 + 4) * 16 * 4
    config.per_layer_config = {1: {"skip": ["self_attn"]}}
    assert count_kv_bytes_per_token(config, torch.float32) is None
