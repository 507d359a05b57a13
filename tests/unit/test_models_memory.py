"""Every byte once, and the parameters that the bytes stand for."""

from __future__ import annotations

import torch
from torch import nn
from transformers import AutoConfig

from myserve_ui.models.memory import count_kv_bytes_per_token, measure_weights
from myserve_ui.models.quantization import import_bitsandbytes
from myserve_ui.models.tiny import build_tiny_model


def test_tied_weights_and_shared_buffers_count_once():
    first, second = nn.Linear(8, 4, bias=False), nn.Linear(8, 4, bias=False)
    second.weight = first.weight
    both = nn.Sequential(first, second)
    both.register_buffer("table", torch.zeros(10, dtype=torch.float16))
    report = measure_weights(both)
    assert report.num_parameters == 32
    assert report.weight_bytes == 32 * 4 + 20
    assert report.bytes_by_dtype == {"float32": 128, "float16": 20}
    assert report.four_bit_modules == ()


def test_a_packed_weight_counts_its_states_and_the_numbers_it_stands_for():
    linear_4bit = import_bitsandbytes().nn.Linear4bit
    layer = linear_4bit(512, 64, bias=False, quant_type="nf4", compute_dtype=torch.float32)
    layer.load_state_dict(nn.Linear(512, 64, bias=False).state_dict())
    report = measure_weights(nn.ModuleDict({"part": layer.to("cpu")}))
    blocks = 512 * 64 // 64
    nested = (blocks // 256) * 4 + 256 * 4 + 4  # absmax of absmax, its code, the offset
    assert report.num_parameters == 512 * 64
    assert report.four_bit_modules == ("part",)
    assert report.bytes_by_dtype["4-bit"] == 512 * 64 // 2
    assert report.weight_bytes == 512 * 64 // 2 + blocks + 16 * 4 + nested


def test_half_precision_halves_the_parameters_bytes():
    full, half = (measure_weights(build_tiny_model("gpt2", dtype=dtype)) for dtype in (torch.float32, torch.float16))
    assert full.num_parameters == half.num_parameters
    assert full.bytes_by_dtype["float32"] == 2 * half.bytes_by_dtype["float16"]


def test_keys_and_values_are_counted_over_key_heads_and_layers():
    config = build_tiny_model("qwen3").config
    assert count_kv_bytes_per_token(config, torch.float32) == 2 * 3 * 2 * 32 * 4
    assert count_kv_bytes_per_token(AutoConfig.for_model("gpt2"), torch.float16) == 2 * 12 * 768 * 2
