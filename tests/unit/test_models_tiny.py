"""The seeded models repeat, say different things, and leave the global state alone."""

from __future__ import annotations

import pytest
import torch

from myserve_ui.models.baseline import generate_without_cache
from myserve_ui.models.tiny import FAMILIES, VOCAB_SIZE, build_tiny_loaded_model, build_tiny_model

PROMPT = list(b"Hello, who are you")


@pytest.mark.parametrize("family", FAMILIES)
def test_greedy_text_moves_and_wins_clearly(family):
    model = build_tiny_model(family)
    token_ids = PROMPT + generate_without_cache(model, PROMPT, max_tokens=24, end_token_ids=frozenset())
    with torch.inference_mode():
        top = model(torch.tensor([token_ids])).logits[0, len(PROMPT) - 1 : -1].topk(2).values
    assert len(set(token_ids[len(PROMPT) :])) >= 8
    assert (top[:, 0] - top[:, 1]).min() > 1e-3


def test_a_seed_gives_the_same_weights_again_and_another_seed_others():
    first, again, other = (build_tiny_model("llama", seed=seed).lm_head.weight for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_the_global_random_state_and_default_dtype_stay():
    state, dtype = torch.get_rng_state(), torch.get_default_dtype()
    model = build_tiny_model("gpt2", dtype=torch.bfloat16)
    assert model.dtype == torch.bfloat16
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_default_dtype() == dtype


def test_a_tiny_loaded_model_speaks_bytes():
    loaded = build_tiny_loaded_model("qwen3")
    assert loaded.module is not None
    assert not loaded.module.training
    assert not any(parameter.requires_grad for parameter in loaded.module.parameters())
    assert loaded.tokenizer.vocab_size == loaded.module.get_output_embeddings().weight.shape[0] == VOCAB_SIZE
