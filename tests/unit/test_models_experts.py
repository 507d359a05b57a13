"""Experts that a precision leaves as they are: said in the note, weighed in the report, reckoned with in the room."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, MixtralConfig, PretrainedConfig, Qwen3MoeConfig

from myserve_ui.models.catalog import build_catalog
from myserve_ui.models.loaded_model import LoadedModel
from myserve_ui.models.loading.checkpoint import read_checkpoint
from myserve_ui.models.loading.loader import LoadOptions, load_model
from myserve_ui.models.loading.placement import needed_bytes
from myserve_ui.models.quantization import count_packable
from tests.support.tiny_checkpoint import build_tiny_tokenizer, save_tiny_model

SIZES = {
    "vocab_size": 320,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
}
CONFIGS = {
    "mixtral": MixtralConfig(**SIZES, num_local_experts=4),
    "qwen3_moe": Qwen3MoeConfig(**SIZES, head_dim=16, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=96),
}


def save(folder: Path, config: PretrainedConfig) -> Path:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).save_pretrained(folder)
    build_tiny_tokenizer().save_pretrained(folder)
    return folder


def load(folder: Path, precision: str) -> LoadedModel:
    entry = build_catalog(model=str(folder), precision=precision, device="cpu").default
    return load_model(entry, options=LoadOptions(cache=folder.parent / "cache"))


@pytest.mark.parametrize("family", sorted(CONFIGS))
def test_experts_that_stay_whole_are_told_of_in_every_lower_precision(tmp_path, family):
    folder = save(tmp_path / family, CONFIGS[family])
    checkpoint = read_checkpoint(folder, family, trust_remote_code=False)
    assert "experts" not in str(load(folder, "full").info.note)
    for precision in ("nf4", "int8", "int4"):
        loaded = load(folder, precision)
        assert "of the weights stay in float32, such as model.layers.*." in str(loaded.info.note)
        assert ".experts." in str(loaded.info.note)
        entry = build_catalog(model=str(folder), precision=precision, device="cpu").default
        needed = needed_bytes(checkpoint, entry, torch.float32, torch.float32)
        assert 0.95 * loaded.memory.weight_bytes < needed
        if precision != "int4":  # which stands whole before it is packed
            assert needed < 1.15 * loaded.memory.weight_bytes
    assert needed_bytes(checkpoint, entry, torch.bfloat16, torch.float32) > 4 * 0.7 * checkpoint.num_parameters


def test_a_dense_model_is_packed_but_for_its_head_and_embedding(tmp_path):
    folder = save_tiny_model(tmp_path / "tiny", "llama")
    checkpoint = read_checkpoint(folder, "tiny", trust_remote_code=False)
    packable = count_packable(checkpoint.config)
    assert packable == 3 * (2 * 64 * 64 + 2 * 32 * 64 + 3 * 64 * 96)
    assert load(folder, "nf4").info.note is None
