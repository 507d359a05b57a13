"""The engine on CUDA says what the module says: in float32 token for token, in 16 bits and nf4 up to near ties."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from myserve_ui import selftest
from myserve_ui.engine.blocks.tables import BLOCK_SIZE
from myserve_ui.engine.module.self_check import TOLERANCE
from myserve_ui.engine.offline import answer_all
from myserve_ui.engine.sequence import EngineRequest
from myserve_ui.models.baseline import generate_plainly, measure_greedy_gap
from myserve_ui.models.catalog import build_catalog
from myserve_ui.models.loading.loader import LoadOptions, load_model
from myserve_ui.models.tiny import FAMILIES, build_tiny_loaded_model
from myserve_ui.serving.engine_builder import EngineLimits, build_engine
from myserve_ui.settings import read_settings
from tests.parity.test_blocks import LENGTHS
from tests.parity.test_families import make_prompt
from tests.support.sampling import resolved

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(300)]
PROMPTS = [make_prompt(length, seed) for seed, length in enumerate(LENGTHS, 40)]
NEW_TOKENS = 24


def tiny(family, device, dtype):
    loaded = build_tiny_loaded_model(family, dtype=dtype)
    return replace(loaded, module=loaded.module.to(device), device=device)


def answers(engine, prompts=PROMPTS, **params):
    params = resolved(**{"temperature": 0.0, "max_tokens": NEW_TOKENS, "ignore_eos": True, **params})
    requests = [EngineRequest(str(index), tuple(prompt), params, arrival=0.0) for index, prompt in enumerate(prompts)]
    found = answer_all(engine, requests)
    assert [answer.error for answer in found] == [None] * len(prompts)
    return [answer.token_ids for answer in found]


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_float32_equals_generate_token_for_token(device, family):
    plain = tiny(family, device, torch.float32).module
    expected = [generate_plainly(plain, prompt, max_tokens=NEW_TOKENS, end_token_ids=frozenset()) for prompt in PROMPTS]
    engine = build_engine(tiny(family, device, torch.float32), EngineLimits(max_num_seqs=8, debug=True))
    assert answers(engine) == expected
    assert answers(engine) == expected, "with every prefix in the cache"


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_bf16_is_the_module_s_own_choice_up_to_near_ties(device, family):
    engine = build_engine(tiny(family, device, torch.bfloat16), EngineLimits(max_num_seqs=8, debug=True))
    plain = tiny(family, device, torch.bfloat16).module
    for prompt, answer in zip(PROMPTS, answers(engine), strict=True):
        assert measure_greedy_gap(plain, prompt, answer) <= TOLERANCE[torch.bfloat16]


def test_replayed_steps_say_what_launched_steps_say(device):
    replaying = build_engine(tiny("llama", device, torch.bfloat16), EngineLimits(max_num_seqs=8, debug=True))
    if replaying.runner.graphs is None:
        pytest.skip("steps are not recorded on this device")
    launching = build_engine(tiny("llama", device, torch.bfloat16), EngineLimits(max_num_seqs=8, debug=True))
    launching.runner.graphs = None
    prompts = PROMPTS[:4]  # a size of the ladder, so that both compute products of the same shapes
    assert answers(replaying, prompts) == answers(launching, prompts)
    assert not replaying.runner.graphs.is_broken


def test_recordings_survive_a_cache_that_grows(device):
    engine = build_engine(tiny("llama", device, torch.bfloat16), EngineLimits(max_num_seqs=32, debug=True))
    first = answers(engine, PROMPTS[:2])
    version = engine.runner.cache.version
    answers(engine, [make_prompt(2 * BLOCK_SIZE - 40, seed) for seed in range(100, 132)])
    assert engine.runner.cache.version > version
    assert answers(engine, PROMPTS[:2]) == first


def test_a_decode_step_waits_for_the_device_once(device):
    engine = build_engine(tiny("llama", device, torch.bfloat16), EngineLimits(max_num_seqs=8))
    params = resolved(temperature=0.8, top_p=0.9, seed=1, max_tokens=40, presence_penalty=0.5, ignore_eos=True)
    for index in range(4):
        engine.add(EngineRequest(str(index), tuple(PROMPTS[0]), params, arrival=0.0))
    for _ in range(10):
        engine.step()
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with pytest.warns(UserWarning, match="synchronizing") as warned:
            engine.step()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert len([warning for warning in warned if "synchronizing" in str(warning.message)]) == 1


@pytest.mark.model
@pytest.mark.parametrize("precision", ["full", "nf4"])
def test_the_default_model_is_right_and_replayed(device, precision):
    entry = build_catalog(model="SmolLM2-135M-Instruct", precision=precision, device="cuda").default
    loaded = load_model(entry, options=LoadOptions(cache=read_settings().cache, device="cuda"))
    attention = loaded.module.config._attn_implementation
    engine = build_engine(loaded, EngineLimits(max_num_seqs=8, debug=True))
    spoken = selftest.answer_questions(engine, loaded)
    assert engine.runner.graphs is None or not engine.runner.graphs.is_broken
    loaded.module.set_attn_implementation(attention)
    for question, answer in spoken.items():
        prompt = selftest.render_question(loaded, question)
        assert measure_greedy_gap(loaded.module, prompt, answer) <= TOLERANCE[loaded.dtype]


@pytest.mark.model
def test_the_default_model_equals_generate_in_float32(device):
    assert selftest.main(["--device", "cuda", "--dtype", "fp32", "--precision", "full"]) == 0
