"""The default model through the engine says what transformers' generate says, token for token, in float32."""

from __future__ import annotations

import itertools

import pytest
import torch

from myserve_ui.core.requests import Message
from myserve_ui.engine.offline import run_steps
from myserve_ui.engine.sequence import EngineRequest
from myserve_ui.models.baseline import generate_plainly
from myserve_ui.models.catalog import build_catalog
from myserve_ui.models.loading.loader import LoadOptions, load_model
from myserve_ui.serving.engine_builder import EngineLimits, build_engine
from myserve_ui.settings import read_settings
from tests.support.sampling import resolved

pytestmark = [pytest.mark.model, pytest.mark.timeout(400)]
MAX_TOKENS = 20
QUESTIONS = (
    "What is the capital of France?",
    "Hi",
    "Explain how a bicycle stays upright, in two sentences.",
    "Write a Python function that reverses a string.",
    "🙂🙂🙂🙂 日本 日本",
    "List the planets. " * 20,
    "Count from one to ten.",
    "Translate to Spanish: good morning, my friend.",
)


@pytest.fixture(scope="module")
def load():
    """Loads the default model; a module of one's own each time, since the engine changes its attention."""
    entry = build_catalog(model="SmolLM2-135M-Instruct", precision="full", device="cpu").default

    def load_it(kernels="auto"):
        options = LoadOptions(cache=read_settings().cache, device="cpu", kernels=kernels)
        return load_model(entry, options=options)

    return load_it


@pytest.fixture(scope="module")
def loaded(load):
    return load()


@pytest.fixture(scope="module")
def prompts(loaded):
    return [loaded.tokenizer.render_chat([Message("user", text)]) for text in QUESTIONS]


@pytest.fixture(scope="module")
def expected(load, prompts):
    plain = load(kernels="plain")
    return [
        generate_plainly(plain.module, prompt, max_tokens=MAX_TOKENS, end_token_ids=plain.eos_token_ids)
        for prompt in prompts
    ]


@pytest.fixture(scope="module")
def engine(loaded):
    return build_engine(loaded, EngineLimits(max_num_seqs=8, debug=True))


def answers(engine, prompts, *, after_step=lambda: None):
    params = resolved(temperature=0.0, max_tokens=MAX_TOKENS)
    ids = {str(index): [] for index in range(len(prompts))}
    for index, prompt in enumerate(prompts):
        engine.add(EngineRequest(str(index), tuple(prompt), params, arrival=0.0))
    for outputs in run_steps(engine):
        for output in outputs:
            ids[output.request_id] += output.token_ids
        after_step()
    return list(ids.values())


def test_eight_questions_at_once_equal_generate(engine, prompts, expected):
    assert answers(engine, prompts) == expected


def test_each_question_alone_with_its_prefix_cached_equals_generate(engine, prompts, expected):
    assert [answers(engine, [prompt])[0] for prompt in prompts[:4]] == expected[:4]
    assert engine.snapshot().prefix_hit_tokens > 0


def test_threads_that_come_and_go_change_no_answer(engine, prompts, expected):
    at_first, turns = torch.get_num_threads(), itertools.cycle([2, 1])
    try:
        assert answers(engine, prompts[:4], after_step=lambda: torch.set_num_threads(next(turns))) == expected[:4]
    finally:
        torch.set_num_threads(at_first)
