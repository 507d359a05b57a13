"""Steps that raise, run out of memory or give no numbers, on a tiny real model: who pays, and what the others say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch

from myserve_ui.core.outputs import FinishReason, RequestOutput
from myserve_ui.engine.engine import OUT_OF_MEMORY, Engine, EngineConfig
from myserve_ui.engine.module.errors import is_out_of_memory
from myserve_ui.engine.rows import kv_cache
from myserve_ui.engine.rows.kv_cache import KVCache, reserve_zeros
from myserve_ui.engine.rows.runner import ModelRunner
from myserve_ui.engine.scheduler import NOT_A_NUMBER
from myserve_ui.engine.sequence import EngineRequest, is_fault
from myserve_ui.models.tiny import build_tiny_model
from tests.support.fault_injection import Fault, FaultKind, FaultyRunner, request_runs, step_is
from tests.support.sampling import resolved

NEW_TOKENS = 20
NAMES = "abcd"
SHARED = list(range(40, 120))
Answers = dict[str, list[int]]


def request_of(name: str, prompt: list[int] | None = None, **params: object) -> EngineRequest:
    """A request whose prompt is its own; greedy unless `params` say otherwise."""
    values = {"temperature": 0.0, "max_tokens": NEW_TOKENS, "ignore_eos": True, **params}
    own = [3 + (ord(name[0]) * 7 + place * 31) % 240 for place in range(10 + 9 * (ord(name[0]) % 7))]
    return EngineRequest(name, tuple(own if prompt is None else prompt), resolved(**values), arrival=0.0)


def make_engine(*faults: Fault, memory_tokens: int | None = None, max_num_seqs: int = 4) -> Engine:
    config = EngineConfig(max_num_seqs, 64, 512, 4096, eos_token_ids=frozenset({2}), debug=True)
    runner = ModelRunner(build_tiny_model("llama"), num_slots=max_num_seqs, max_len=512)
    faulty = FaultyRunner(runner, faults, memory_tokens=memory_tokens)
    return Engine(faulty, lambda ids: "", config=config)


def steps(engine: Engine, limit: int = 400) -> Iterator[list[RequestOutput]]:
    """Steps until nothing is left to do; a step that raises is answered as the engine's thread does."""
    for _ in range(limit):
        if not engine.has_work:
            return
        try:
            yield engine.step()
        except BaseException as error:
            if not is_fault(error):
                raise
            yield engine.fail_step("sorry")
    raise AssertionError("the engine does not come to an end")


def run(engine: Engine, *requests: EngineRequest) -> tuple[Answers, dict[str, RequestOutput]]:
    """Answers and last outputs of `requests`, all put in at once."""
    for request in requests:
        engine.add(request)
    answers: Answers = {request.request_id: [] for request in requests}
    last = {}
    for outputs in steps(engine):
        for output in outputs:
            answers.setdefault(output.request_id, []).extend(output.token_ids)
            last[output.request_id] = output
    assert engine.snapshot().kv_tokens_used == 0
    return answers, last


def reasons(last: dict[str, RequestOutput]) -> dict[str, FinishReason | None]:
    return {name: output.finish_reason for name, output in last.items()}


@pytest.fixture(scope="module")
def expected() -> Answers:
    """What each request says when nothing goes wrong."""
    return run(make_engine(), *(request_of(name) for name in NAMES))[0]


def test_a_step_that_raises_fails_its_requests_and_the_waiting_ones_go_on(expected: Answers) -> None:
    breaks_a_and_b = Fault(FaultKind.RAISE, lambda step, batch: step >= 5 and request_runs("a", "b")(step, batch))
    engine = make_engine(breaks_a_and_b, max_num_seqs=2)
    answers, last = run(engine, *(request_of(name) for name in NAMES))
    assert [last[name].error for name in "ab"] == ["sorry", "sorry"]
    assert {name: answers[name] for name in "cd"} == {name: expected[name] for name in "cd"}
    assert engine.snapshot().failed_steps == 1


@pytest.mark.parametrize("after", [False, True])
def test_a_step_that_raises_leaves_nothing_wrong_behind(expected: Answers, after: bool) -> None:
    engine = make_engine(Fault(FaultKind.RAISE, step_is(1, 4), after=after))
    run(engine, *(request_of(name) for name in NAMES))
    run(engine, *(request_of(name) for name in NAMES))
    assert run(engine, *(request_of(name) for name in NAMES))[0] == expected


def test_values_that_are_not_numbers_end_their_own_row_only(expected: Answers) -> None:
    engine = make_engine(Fault(FaultKind.NAN, step_is(6), rows=lambda chunk: chunk.sequence.request_id == "b"))
    answers, last = run(engine, *(request_of(name) for name in NAMES))
    assert last["b"].error == NOT_A_NUMBER
    assert {name: answers[name] for name in "acd"} == {name: expected[name] for name in "acd"}
    assert answers["b"] == expected["b"][: len(answers["b"])]
    assert run(engine, request_of("b"))[0]["b"] == expected["b"]


def test_a_spoilt_row_is_cleared_even_if_the_step_that_should_have_done_it_raised(expected: Answers) -> None:
    spoils_a = Fault(FaultKind.NAN, step_is(6), rows=lambda chunk: chunk.sequence.request_id == "a")
    engine = make_engine(spoils_a, Fault(FaultKind.RAISE, step_is(7)), max_num_seqs=2)
    for name in "ab":
        engine.add(request_of(name))
    for _ in range(6):
        engine.step()
    for layer in engine.runner.runner.cache.layers.values():  # type: ignore[attr-defined]
        layer.keys[0, :, :60], layer.values[0, :, :60] = torch.nan, torch.nan
    assert run(engine)[1]["b"].error == "sorry"
    answers, _ = run(engine, request_of("c"), request_of("d"))
    assert answers == {name: expected[name] for name in "cd"}


@pytest.mark.parametrize("kind", [FaultKind.OUT_OF_MEMORY, FaultKind.OUT_OF_CPU_MEMORY])
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("failing", [(1,), (2, 3), (7, 8)])
def test_a_passing_lack_of_memory_changes_no_answer(
    expected: Answers, kind: FaultKind, after: bool, failing: tuple[int, ...]
) -> None:
    engine = make_engine(Fault(kind, step_is(*failing), after=after))
    answers, last = run(engine, *(request_of(name) for name in NAMES))
    assert answers == expected
    assert set(reasons(last).values()) == {FinishReason.LENGTH}
    assert engine.snapshot().out_of_memory_steps == len(failing)


def test_kept_rows_go_before_anybody_is_preempted(expected: Answers) -> None:
    engine = make_engine(memory_tokens=192)
    run(engine, request_of("a"))
    assert engine.snapshot().kv_tokens_kept > 0
    answers, _ = run(engine, *(request_of(name) for name in "bc"))
    assert engine.snapshot().out_of_memory_steps > 0
    assert engine.snapshot().preemptions == 0
    assert answers == {name: expected[name] for name in "bc"}


def test_the_newest_gives_way_and_goes_on_later_with_the_same_answer(expected: Answers) -> None:
    engine = make_engine(Fault(FaultKind.OUT_OF_MEMORY, lambda _step, batch: len(batch.chunks) > 2))
    for name in NAMES:
        engine.add(request_of(name))
    ended, answers = [], {name: [] for name in NAMES}
    for outputs in steps(engine):
        ended += [output.request_id for output in outputs if output.finish_reason]
        for output in outputs:
            answers[output.request_id] += output.token_ids
    assert answers == expected
    assert set(ended[:2]) == {"a", "b"}


def test_one_that_does_not_fit_alone_ends_with_a_sentence_and_the_others_do_not(expected: Answers) -> None:
    engine = make_engine(Fault(FaultKind.OUT_OF_MEMORY, request_runs("c")))
    answers, last = run(engine, *(request_of(name) for name in NAMES))
    assert last["c"].error == OUT_OF_MEMORY
    assert {name: answers[name] for name in "abd"} == {name: expected[name] for name in "abd"}


def test_without_any_memory_everybody_is_told_and_the_engine_recovers(expected: Answers) -> None:
    engine = make_engine(Fault(FaultKind.OUT_OF_MEMORY))
    _, last = run(engine, *(request_of(name) for name in NAMES))
    assert [last[name].error for name in NAMES] == [OUT_OF_MEMORY] * len(NAMES)
    engine.runner.faults.clear()  # type: ignore[attr-defined]
    assert run(engine, *(request_of(name) for name in NAMES))[0] == expected


@pytest.mark.parametrize("step", range(3, 9))
def test_a_shared_prompt_survives_a_lack_of_memory_while_it_is_copied(step: int) -> None:
    requests = [request_of(name, [*SHARED, ord(name)]) for name in NAMES]
    plain, _ = run(make_engine(), *(replace(request, cache_prompt=False) for request in requests))
    engine = make_engine(Fault(FaultKind.OUT_OF_MEMORY, step_is(step)))
    engine.add(requests[0])
    first = [engine.step(), engine.step()]  # the prompt is computed, and the others copy it from the live row
    answers, _ = run(engine, *requests[1:])
    assert engine.scheduler.slots.hit_tokens >= 3 * len(SHARED)
    assert {name: answers[name] for name in "bcd"} == {name: plain[name] for name in "bcd"}
    assert first


@pytest.mark.parametrize("after", [False, True])
def test_a_seed_gives_the_same_after_a_lack_of_memory(after: bool) -> None:
    requests = [request_of(name, temperature=1.2, seed=5) for name in NAMES]
    plain, _ = run(make_engine(), *requests)
    engine = make_engine(Fault(FaultKind.OUT_OF_MEMORY, step_is(2, 5, 6), after=after))
    assert run(engine, *requests)[0] == plain


def test_prompt_scores_are_told_once_although_their_step_is_done_again() -> None:
    scored = request_of("a", prompt_logprobs=True, logprobs=1)
    engine = make_engine(Fault(FaultKind.OUT_OF_MEMORY, step_is(1), after=True))
    engine.sampler = _ShortOfMemoryOnce(engine.sampler)  # type: ignore[assignment]
    engine.add(scored)
    told = [entry.token_id for outputs in steps(engine) for output in outputs for entry in output.prompt_logprobs]
    assert told == list(scored.prompt_token_ids[1:])


class _ShortOfMemoryOnce:
    """A sampler that has drawn already when the memory runs out."""

    def __init__(self, sampler: object) -> None:
        self._sampler = sampler
        self._failed = False

    def sample(self, *arguments: object) -> object:
        sampled = self._sampler.sample(*arguments)  # type: ignore[attr-defined]
        if not self._failed:
            self._failed = True
            raise torch.OutOfMemoryError
        return sampled


def test_a_draw_that_is_done_again_is_the_same_draw() -> None:
    requests = [request_of(name, temperature=1.2, seed=5) for name in NAMES]
    plain, _ = run(make_engine(), *requests)
    engine = make_engine()
    engine.sampler = _ShortOfMemoryOnce(engine.sampler)  # type: ignore[assignment]
    assert run(engine, *requests)[0] == plain


@pytest.mark.parametrize("fails_at", [1, 2, 3])
def test_a_cache_whose_growth_fails_half_way_keeps_what_it_held(monkeypatch: pytest.MonkeyPatch, fails_at: int) -> None:
    cache = KVCache(4, 2048)
    key = torch.ones(2, 1, 8)
    for index in range(2):
        cache.layer(index, key, key).keys[0, :, :100] = index + 1
        cache.layer(index, key, key).values[0, :, :100] = -index - 1
    calls = [0]

    def fail_once(tensor: torch.Tensor, *shape: int) -> torch.Tensor:
        calls[0] += 1
        if calls[0] == fails_at:
            raise MemoryError
        return reserve_zeros(tensor, *shape)

    cache.reserve([100])
    with monkeypatch.context() as patch:
        patch.setattr(kv_cache, "reserve_zeros", fail_once)
        with pytest.raises(MemoryError):
            cache.reserve([100, 900])
    cache.reserve([100, 600])
    for index in range(2):
        layer = cache.layer(index, key, key)
        assert layer.keys.shape == layer.values.shape == (2, 2, 1024, 8)
        assert layer.keys[0, :, :100].unique().tolist() == [index + 1]
        assert layer.values[0, :, :100].unique().tolist() == [-index - 1]


def test_the_allocator_s_own_words_are_known() -> None:
    with pytest.raises(RuntimeError) as refused:
        torch.empty(2**48, dtype=torch.uint8)
    assert is_out_of_memory(refused.value)
    assert is_out_of_memory(torch.OutOfMemoryError("CUDA out of memory"))
    assert not is_out_of_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
