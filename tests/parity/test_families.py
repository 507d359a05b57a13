"""Greedy through the engine equals `generate`, token for token, for every family: alone, batched, at any moment."""

import random
from dataclasses import replace
from itertools import islice

import pytest
import torch

from myserve_ui.engine.engine import Engine, EngineConfig
from myserve_ui.engine.module.self_check import check_runner, reference_logits
from myserve_ui.engine.offline import run_steps
from myserve_ui.engine.rows.runner import ModelRunner
from myserve_ui.engine.sequence import EngineRequest
from myserve_ui.kernels.cpu_kernels import install_cpu_kernels
from myserve_ui.models.tiny import FAMILIES, VOCAB_SIZE, build_tiny_model
from myserve_ui.models.tokenizers.byte_tokenizer import EOS_TOKEN_ID
from tests.support.block_runners import ReplayingRecorder, block_runner
from tests.support.sampling import resolved

NEW_TOKENS = 24
PROMPT_LENGTHS = (1, 2, 5, 9, 17, 50, 110, 180)
END_TOKENS = frozenset({EOS_TOKEN_ID})


def make_prompt(length, seed):
    generator = random.Random(seed)
    return tuple(generator.randrange(3, 250) for _ in range(length))


PROMPTS = [make_prompt(length, seed) for seed, length in enumerate(PROMPT_LENGTHS)]


@pytest.fixture(scope="module", params=sorted(FAMILIES))
def family(request):
    return request.param


@pytest.fixture(scope="module")
def expected(family):
    """The ids that plain generate gives for each prompt, alone."""
    module = build_tiny_model(family)
    answers = []
    for prompt in PROMPTS:
        ids = torch.tensor([prompt])
        output = module.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            do_sample=False,
            max_new_tokens=NEW_TOKENS,
            min_new_tokens=NEW_TOKENS,
        )
        answers.append(output[0, len(prompt) :].tolist())
    return answers


@pytest.fixture(params=["rows", "rows, cpu kernels", "blocks", "recorded blocks"])
def make_runner(request, family):
    def make(num_slots=4):
        module = build_tiny_model(family)
        if "kernels" in request.param:
            assert install_cpu_kernels(module, torch.float32, in_int4=False)
        if "rows" in request.param:
            return ModelRunner(module, num_slots=num_slots, max_len=512)
        return block_runner(
            module, num_slots=num_slots, recorder=ReplayingRecorder() if "recorded" in request.param else None
        )

    return make


@pytest.fixture
def make_engine(make_runner):
    def make(*, batched_tokens=64, cache_tokens=4096, max_num_seqs=8):
        config = EngineConfig(max_num_seqs, batched_tokens, 512, cache_tokens, eos_token_ids=END_TOKENS, debug=True)
        runner = make_runner(max_num_seqs)
        return Engine(runner, lambda ids: "", config=config)

    return make


def request_of(index, *, cache_prompt=True):
    params = resolved(temperature=0.0, max_tokens=NEW_TOKENS, min_tokens=NEW_TOKENS)
    return EngineRequest(f"r{index}", PROMPTS[index], params, arrival=0.0, cache_prompt=cache_prompt)


def run(engine, answers=None):
    answers = {} if answers is None else answers
    for outputs in run_steps(engine):
        collect(outputs, answers)
    return answers


def collect(outputs, answers):
    for output in outputs:
        answers.setdefault(output.request_id, []).extend(output.token_ids)
        assert output.error is None


def test_each_prompt_alone(make_engine, expected):
    for index in range(len(PROMPTS)):
        engine = make_engine()
        engine.add(request_of(index))
        assert run(engine)[f"r{index}"] == expected[index]


def test_eight_lengths_in_one_batch(make_engine, expected):
    engine = make_engine()
    for index in range(len(PROMPTS)):
        engine.add(request_of(index))
    answers = run(engine)
    assert [answers[f"r{index}"] for index in range(len(PROMPTS))] == expected


def test_joining_and_leaving_at_any_step(make_engine, expected):
    engine, answers = make_engine(batched_tokens=16, max_num_seqs=4), {}
    for index in (6, 0, 7, 3, 5, 1, 4, 2):
        engine.add(request_of(index))
        for _ in range(3):
            collect(engine.step(), answers)
    run(engine, answers)
    assert [answers[f"r{index}"] for index in range(len(PROMPTS))] == expected


def test_a_neighbour_that_aborts_changes_nobody(make_engine, expected):
    engine, answers = make_engine(), {}
    for index in range(len(PROMPTS)):
        engine.add(request_of(index))
    for leaving in (1, 7, 3):
        collect(engine.step(), answers)
        engine.abort(f"r{leaving}")
    run(engine, answers)
    assert all(answers[f"r{index}"] == expected[index] for index in (0, 2, 4, 5, 6))


def test_preempted_sequences_give_the_same_tokens(make_engine, expected):
    engine = make_engine(cache_tokens=512)
    for index in (7, 6, 5, 4, 3):
        engine.add(request_of(index, cache_prompt=False))
        engine.add(EngineRequest(f"filler{index}", PROMPTS[index], request_of(index).params, arrival=0.0))
    answers = run(engine)
    assert engine.scheduler.num_preemptions > 0
    assert all(answers[f"r{index}"] == expected[index] for index in (7, 6, 5, 4, 3))


def test_a_prefix_hit_gives_the_same_tokens(make_engine, expected):
    engine = make_engine()
    engine.add(request_of(7))
    run(engine)
    engine.add(request_of(7))
    answers = run(engine)
    assert engine.scheduler.slots.hit_tokens == len(PROMPTS[7]) - 1
    assert answers["r7"] == expected[7]


def test_a_prefix_is_copied_before_its_row_is_given_up_for_a_long_prompt(make_engine, expected):
    engine = make_engine(batched_tokens=512, cache_tokens=512, max_num_seqs=4)
    engine.add(EngineRequest("kept", PROMPTS[7][:30] + make_prompt(60, 70), request_of(7).params, arrival=0.0))
    run(engine)
    engine.add(request_of(7))
    engine.add(EngineRequest("long", make_prompt(260, 71), request_of(7).params, arrival=0.0))
    assert run(engine)["r7"] == expected[7]
    assert engine.scheduler.slots.hit_tokens == 30


def test_the_self_check_passes(family, make_runner):
    reference = reference_logits(build_tiny_model(family), VOCAB_SIZE)
    runner = make_runner()
    assert check_runner(runner, reference, VOCAB_SIZE) < 1e-4
    assert runner.kv_bytes_per_token > 0


def test_prompt_scores_equal_the_plain_forward(family, make_engine):
    module, prompt = build_tiny_model(family), PROMPTS[6]
    logits = module(input_ids=torch.tensor([prompt]), use_cache=False).logits[0].float()
    reference = torch.log_softmax(logits, -1)[range(len(prompt) - 1), prompt[1:]]
    engine = make_engine(batched_tokens=40)
    request = request_of(6)
    engine.add(replace(request, params=replace(request.params, prompt_logprobs=True, max_tokens=0, min_tokens=0)))
    scores = [
        entry.logprob
        for outputs in islice(run_steps(engine), 9)
        for output in outputs
        for entry in output.prompt_logprobs
    ]
    assert torch.allclose(torch.tensor(scores), reference, atol=2e-3)
