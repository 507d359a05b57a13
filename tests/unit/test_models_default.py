"""The default model survives its conversion: template, end tokens, sizes, and what it knows."""

from __future__ import annotations

import importlib.util
from functools import cache

import pytest

from myserve_ui.core.requests import Message
from myserve_ui.kernels.linear.fp16 import can_compute_from_fp16
from myserve_ui.models.baseline import generate_plainly
from myserve_ui.models.catalog import DEFAULT_MODEL_NAME, PACKAGE, build_catalog
from myserve_ui.models.loaded_model import LoadedModel
from myserve_ui.models.loading.loader import LoadOptions, load_model
from myserve_ui.models.quantization import PRECISIONS
from myserve_ui.settings import read_settings

pytestmark = [
    pytest.mark.model,
    pytest.mark.skipif(importlib.util.find_spec(PACKAGE) is None, reason="requirements-model.txt is not installed"),
]

START, END = 1, 2
QUESTION = [Message("user", "What is the capital of France?")]


@cache
def load(key: str) -> LoadedModel:
    """From the cache folder of the app itself: converted in the first run of all, then only checked."""
    catalog = build_catalog(model=DEFAULT_MODEL_NAME, precision="full", device="cpu")
    return load_model(catalog.get(key), options=LoadOptions(cache=read_settings().cache, device="cpu"))


def test_its_facts_survive():
    loaded = load(DEFAULT_MODEL_NAME)
    assert loaded.eos_token_ids == {END}
    assert (loaded.context_length, loaded.info.num_parameters) == (8192, 134_515_008)
    rotary_frequencies = 2 * 32 * 4  # two buffers of half a head
    embedding = 49_152 * 576 * 2  # beside the packed head, which cannot be looked up in
    norms = 61 * 576 * 4
    products = 134_515_008 - norms // 4
    if can_compute_from_fp16():  # in blocks of 512 inputs, where most weights have 576
        from_wide, padded = 30 * 1536 * 576, 1024 / 576
        stored = 2 * from_wide + round(2 * padded * (products - from_wide))
        assert loaded.info.bytes_per_step == 2 * products + norms + rotary_frequencies
    else:
        stored = 4 * products
    assert loaded.info.weight_bytes == stored + norms + embedding + rotary_frequencies
    assert loaded.info.kv_bytes_per_token == 30 * 2 * 3 * 64 * 4


def test_its_template_writes_control_tokens_and_a_user_cannot():
    tokenizer = load(DEFAULT_MODEL_NAME).tokenizer
    token_ids = tokenizer.render_chat([Message("user", "a<|im_end|>b<repo_name>")])
    assert (token_ids.count(START), token_ids.count(END), token_ids.count(3)) == (3, 2, 0)
    assert token_ids[0] == START
    assert tokenizer.decode(token_ids).endswith("user\na<|im_end|>b<repo_name>\nassistant\n")


@pytest.mark.parametrize("key", [DEFAULT_MODEL_NAME, *(f"{DEFAULT_MODEL_NAME}:{name}" for name in PRECISIONS[1:])])
def test_it_knows_the_capital_of_france(key):
    loaded = load(key)
    prompt = loaded.tokenizer.render_chat(QUESTION)
    token_ids = generate_plainly(loaded.module, prompt, max_tokens=8, end_token_ids=loaded.eos_token_ids)
    assert "Paris" in loaded.tokenizer.decode(token_ids)


@pytest.mark.parametrize(("precision", "bits"), [("nf4", 4.127), ("int8", 8.05), ("int4", 5.0)])
def test_bits_of_its_quantized_weights_agree_with_the_arithmetic(precision, bits):
    memory = load(f"{DEFAULT_MODEL_NAME}:{precision}").memory
    assert memory.bits_per_quantized_parameter == pytest.approx(bits, rel=0.01)
    assert sum(group.num_parameters for group in memory.quantized) == 106_168_320
    is_packed = precision == "int4"  # a packed head stands beside the embedding
    assert memory.tied == (() if is_packed else (("model.embed_tokens.weight", "lm_head.weight"),))
    assert memory.lookup == ("model.embed_tokens.weight" if is_packed else None)


def test_four_bits_leave_a_third_of_the_bytes_and_every_parameter():
    full, packed = load(DEFAULT_MODEL_NAME).info, load(f"{DEFAULT_MODEL_NAME}:nf4").info
    assert packed.num_parameters == full.num_parameters
    assert 0.27 < packed.weight_bytes / full.weight_bytes < 0.35


def test_the_bytes_of_its_tokens_are_what_it_decodes():
    tokenizer = load(DEFAULT_MODEL_NAME).tokenizer
    table = tokenizer.token_bytes()
    assert len(table) == tokenizer.vocab_size
    wrong = [i for i, word in enumerate(table) if word.decode(errors="replace") != tokenizer.decode([i])]
    assert wrong == []
