"""What begins beyond a length, alone, beside a short neighbour, while an answer grows: as `generate` has it."""

from __future__ import annotations

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    Llama4TextConfig,
    LlamaConfig,
    Phi3Config,
    PhimoeConfig,
    Qwen2MoeConfig,
)

from myserve_ui.engine.engine import Engine, EngineConfig
from myserve_ui.engine.offline import answer_all
from myserve_ui.engine.rows.runner import ModelRunner
from myserve_ui.engine.sequence import EngineRequest
from myserve_ui.models.baseline import generate_plainly
from myserve_ui.models.tiny import COMMON, _scale_weights
from tests.parity.test_families import make_prompt
from tests.support.block_runners import ReplayingRecorder, block_runner
from tests.support.sampling import resolved

BORDER = 64
NEW_TOKENS = 6
PROMPTS = [make_prompt(length, seed) for seed, length in enumerate((5, 60, 64, 65, 110), 200)]
"""Far below the border, over it while decoding, on it, just beyond, far beyond."""
SHAPE = {
    **COMMON,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
FACTORS = {"short_factor": [1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7], "long_factor": [1.5, 2, 3, 4, 5, 6, 7, 8.0]}
LONGROPE = {"rope_type": "longrope", "rope_theta": 10000.0, "original_max_position_embeddings": BORDER, **FACTORS}
EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 2}

CONFIGS = {
    "llama, longrope": lambda: LlamaConfig(**SHAPE, rope_parameters=dict(LONGROPE)),
    "phi3, longrope": lambda: Phi3Config(
        **SHAPE, original_max_position_embeddings=BORDER, rope_parameters=dict(LONGROPE)
    ),
    "phimoe, longrope": lambda: PhimoeConfig(
        **SHAPE,
        **EXPERTS,
        sliding_window=None,
        original_max_position_embeddings=BORDER,
        rope_parameters={**LONGROPE, "short_mscale": 1.1, "long_mscale": 1.3},
    ),
    "llama, dynamic": lambda: LlamaConfig(
        **{**SHAPE, "max_position_embeddings": BORDER},
        rope_parameters={"rope_type": "dynamic", "factor": 4.0, "rope_theta": 10000.0},
    ),
    "phimoe, window": lambda: PhimoeConfig(**SHAPE, **EXPERTS, sliding_window=30),
    "qwen2_moe, window": lambda: Qwen2MoeConfig(
        **SHAPE,
        num_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=32,
        shared_expert_intermediate_size=32,
        use_sliding_window=True,
        sliding_window=30,
        max_window_layers=1,
    ),
    "llama4_text, chunk and temperature": lambda: Llama4TextConfig(
        **{**SHAPE, "num_hidden_layers": 4},
        **EXPERTS,
        head_dim=16,
        intermediate_size_mlp=96,
        attention_chunk_size=32,
        floor_scale=40,
        attn_scale=0.5,
    ),
}


IN_BLOCKS = ("phi3, longrope", "llama, dynamic", "llama4_text, chunk and temperature")
CASES = [*((name, "rows") for name in CONFIGS), *((name, "blocks") for name in IN_BLOCKS)]


def build(name):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(CONFIGS[name](), dtype=torch.float32)
    _scale_weights(model, torch.Generator().manual_seed(0))
    return model.eval().requires_grad_(False)


@pytest.fixture(scope="module", params=CASES, ids=": ".join)
def case(request):
    return request.param


@pytest.fixture(scope="module")
def name(case):
    return case[0]


@pytest.fixture(scope="module")
def expected(name):
    """By a module of its own each: some remember the longest text they have seen."""
    return [
        generate_plainly(build(name), prompt, max_tokens=NEW_TOKENS, end_token_ids=frozenset()) for prompt in PROMPTS
    ]


@pytest.fixture
def make_engine(case):
    name, kind = case

    def make(*, cache_tokens=2048, batched_tokens=48):
        module = build(name)
        runner = (
            ModelRunner(module, num_slots=8, max_len=512)
            if kind == "rows"
            else block_runner(module, num_slots=8, recorder=ReplayingRecorder())
        )
        config = EngineConfig(8, batched_tokens, 192, cache_tokens, debug=True)
        return Engine(runner, lambda ids: "", config=config)

    return make


def answers(engine, prompts):
    params = resolved(temperature=0.0, max_tokens=NEW_TOKENS)
    requests = [EngineRequest(str(index), tuple(prompt), params, arrival=0.0) for index, prompt in enumerate(prompts)]
    found = answer_all(engine, requests)
    assert [answer.error for answer in found] == [None] * len(prompts)
    return [answer.token_ids for answer in found]


def test_each_alone_and_again_with_what_is_cached(make_engine, expected):
    engine = make_engine()
    for prompt, wanted in zip(PROMPTS, expected, strict=True):
        assert answers(engine, [prompt]) == [wanted]
    for prompt, wanted in zip(PROMPTS, expected, strict=True):
        assert answers(engine, [prompt]) == [wanted]


def test_short_and_long_beside_each_other(make_engine, expected):
    assert answers(make_engine(), PROMPTS) == expected


def test_preempted(make_engine, expected):
    engine = make_engine(cache_tokens=192, batched_tokens=192)
    assert answers(engine, PROMPTS) == expected
    assert engine.scheduler.num_preemptions > 0


def test_a_prefix_of_the_other_side_is_not_taken(make_engine, name):
    engine = make_engine()
    answers(engine, [PROMPTS[-1]])
    short = PROMPTS[-1][:40]
    wanted = generate_plainly(build(name), short, max_tokens=NEW_TOKENS, end_token_ids=frozenset())
    assert answers(engine, [short]) == [wanted]
