"""Sequences over several blocks say what `generate` says: in company, with a prefix, and when memory runs out."""

from __future__ import annotations

import pytest
import torch

from myserve_ui.engine.blocks.tables import BLOCK_SIZE
from myserve_ui.engine.engine import Engine, EngineConfig
from myserve_ui.engine.offline import run_steps
from myserve_ui.engine.sequence import EngineRequest
from myserve_ui.models.baseline import generate_plainly
from myserve_ui.models.tiny import build_tiny_model
from myserve_ui.models.tokenizers.byte_tokenizer import EOS_TOKEN_ID
from tests.parity.test_families import make_prompt
from tests.support.block_runners import RefusingRecorder, ReplayingRecorder, block_runner
from tests.support.fault_injection import FaultyRunner
from tests.support.sampling import resolved

LENGTHS = (30, BLOCK_SIZE - 5, BLOCK_SIZE, 300, 470)
"""Within a block, over its edge while it decodes, on its edge, and over two blocks."""
PROMPTS = [make_prompt(length, seed) for seed, length in enumerate(LENGTHS, 40)]
NEW_TOKENS = 12
END_TOKENS = frozenset({EOS_TOKEN_ID})


@pytest.fixture(scope="module", params=["llama", "mistral"])
def family(request):
    return request.param


@pytest.fixture(scope="module")
def expected(family):
    module = build_tiny_model(family)
    return [generate_plainly(module, prompt, max_tokens=NEW_TOKENS, end_token_ids=frozenset()) for prompt in PROMPTS]


@pytest.fixture
def recorder():
    return ReplayingRecorder()


@pytest.fixture
def make_engine(family, recorder):
    def make(*, cache_tokens=4096, max_num_seqs=8, recorder=recorder, memory_tokens=None):
        config = EngineConfig(max_num_seqs, 128, 512, cache_tokens, debug=True)
        runner = block_runner(build_tiny_model(family), num_slots=max_num_seqs, recorder=recorder)
        faulty = FaultyRunner(runner, memory_tokens=memory_tokens)
        return Engine(faulty, lambda ids: "", config=config), runner

    return make


def request_of(index):
    params = resolved(temperature=0.0, max_tokens=NEW_TOKENS)
    return EngineRequest(f"r{index}", tuple(PROMPTS[index]), params, arrival=0.0)


def run(engine):
    answers = {}
    for outputs in run_steps(engine):
        for output in outputs:
            assert output.error is None
            answers.setdefault(output.request_id, []).extend(output.token_ids)
    return answers


def add_all(engine):
    for index in range(len(PROMPTS)):
        engine.add(request_of(index))


def all_answers(engine):
    answers = run(engine)
    return [answers[f"r{index}"] for index in range(len(PROMPTS))]


def test_all_lengths_in_one_batch_are_right_and_decode_by_replay(make_engine, expected, recorder):
    engine, _runner = make_engine()
    add_all(engine)
    assert all_answers(engine) == expected
    assert sum(recording.replays for recording in recorder.recordings) >= NEW_TOKENS - 1


def test_a_prefix_of_several_blocks_is_copied_and_taken_over(make_engine, expected):
    engine, _runner = make_engine()
    add_all(engine)
    run(engine)
    longer = tuple(PROMPTS[4][:400]) + make_prompt(80, 90)
    engine.add(EngineRequest("other", longer, request_of(4).params, arrival=0.0))
    engine.add(request_of(3))
    answers = run(engine)
    module = build_tiny_model(engine.runner.runner.module.config.model_type)
    plain = generate_plainly(module, longer, max_tokens=NEW_TOKENS, end_token_ids=frozenset())
    assert (answers["other"], answers["r3"]) == (plain, expected[3])
    assert engine.snapshot().prefix_hit_tokens == 400 + 299


def test_preemption_gives_the_same_tokens_and_the_blocks_back(make_engine, expected):
    engine, runner = make_engine(cache_tokens=640)
    for index in (0, 1, 2):
        engine.add(request_of(index))
    answers = run(engine)
    assert [answers[f"r{index}"] for index in (0, 1, 2)] == expected[:3]
    assert engine.snapshot().preemptions > 0
    engine.scheduler.slots.evict_kept()
    runner.reserve(engine.scheduler.slots.allocated())
    assert runner.cache.tables.num_used == 0


def test_a_lack_of_memory_costs_time_and_no_token(make_engine, expected):
    engine, runner = make_engine(memory_tokens=900)
    add_all(engine)
    assert all_answers(engine) == expected
    assert engine.counters.out_of_memory_steps > 0
    runner.cache.tables.check()


def test_a_device_that_records_nothing_is_asked_once_and_serves_all_the_same(make_engine, expected, caplog):
    recorder = RefusingRecorder(RuntimeError("operation not permitted when stream is capturing"))
    engine, runner = make_engine(recorder=recorder)
    add_all(engine)
    assert all_answers(engine) == expected
    assert recorder.calls == 1 and runner.graphs.is_broken
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "not permitted" in caplog.text


def test_a_lack_of_memory_while_recording_is_no_reason_to_stop_recording(make_engine, expected):
    class ShortOnce(ReplayingRecorder):
        def record(self, work):
            if not self.recordings:
                self.recordings.append(super().record(work))
                raise torch.OutOfMemoryError
            return super().record(work)

    engine, runner = make_engine(recorder=ShortOnce())
    add_all(engine)
    assert all_answers(engine) == expected
    assert engine.counters.out_of_memory_steps == 1 and not runner.graphs.is_broken
