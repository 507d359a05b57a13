"""What one sequence breaks harms that sequence: its neighbours go on with the same text, the same draws and scores."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

import pytest
import torch

from myserve_ui.core.outputs import FinishReason
from myserve_ui.engine.engine import OUT_OF_MEMORY, Engine
from myserve_ui.engine.scheduler import ScheduledBatch
from myserve_ui.engine.sequence import BROKEN, EngineRequest
from tests.faults.test_steps_that_fail import NAMES, SHARED, Answers, make_engine, reasons, request_of, run, steps
from tests.support.fault_injection import Fault, FaultKind, request_runs

UNKNOWN_ID = 345
"""The tiny model has 320."""


class Panic(BaseException):
    """As a panic of a Rust library comes: no Exception."""


def breaks(*names: str, after: bool = False, from_step: int = 1) -> Fault:
    """Steps in which one of `names` has a part raise, from a step on."""
    runs = request_runs(*names)
    return Fault(FaultKind.RAISE, lambda step, batch: step >= from_step and runs(step, batch), after=after)


@pytest.fixture(scope="module")
def drawn() -> Answers:
    """What each says with a seed, when nothing goes wrong."""
    return run(make_engine(), *requests())[0]


def requests(*, but: EngineRequest | None = None) -> list[EngineRequest]:
    """Seeded requests of all names, one of them replaced."""
    seeded = [request_of(name, temperature=1.2, seed=5) for name in NAMES]
    return [but if but is not None and but.request_id == each.request_id else each for each in seeded]


def without(answers: Answers, *names: str) -> Answers:
    return {name: ids for name, ids in answers.items() if name not in names}


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("from_step", [1, 9])
@pytest.mark.parametrize("name", ["a", "c"])
def test_the_one_that_breaks_a_step_ends_and_the_others_say_the_same(
    drawn: Answers, name: str, from_step: int, after: bool
) -> None:
    engine = make_engine(breaks(name, after=after, from_step=from_step))
    answers, last = run(engine, *requests())
    assert last[name].error == "sorry"
    assert answers[name] == drawn[name][: len(answers[name])]
    assert without(answers, name) == without(drawn, name)
    engine.runner.faults.clear()  # type: ignore[attr-defined]
    assert run(engine, *requests())[0] == drawn


def test_two_that_break_a_step_are_both_found(drawn: Answers) -> None:
    answers, last = run(make_engine(breaks("a", "c", from_step=4)), *requests())
    assert {name for name, output in last.items() if output.error} == {"a", "c"}
    assert without(answers, "a", "c") == without(drawn, "a", "c")


def test_a_failure_that_passes_ends_nobody(drawn: Answers) -> None:
    fails_whole_steps = Fault(FaultKind.RAISE, lambda step, batch: step % 2 == 0 and len(batch.chunks) > 1)
    assert run(make_engine(fails_whole_steps), *requests())[0] == drawn


def test_a_broken_runner_ends_everybody_in_a_bounded_number_of_tries() -> None:
    engine = make_engine(Fault(FaultKind.RAISE))
    _, last = run(engine, *requests())
    assert {output.error for output in last.values()} == {"sorry"}
    assert engine.runner.steps <= 2 * len(NAMES)  # type: ignore[attr-defined]


def test_an_id_that_the_model_lacks_harms_its_own_sequence(drawn: Answers) -> None:
    answers, last = run(make_engine(), *requests(but=request_of("b", [5, UNKNOWN_ID, 7])))
    assert last["b"].finish_reason is FinishReason.ERROR
    assert without(answers, "b") == without(drawn, "b")


def test_parameters_that_the_sampler_cannot_follow_harm_their_own_sequence(drawn: Answers) -> None:
    poison = request_of("c", logit_bias=((UNKNOWN_ID, 1.0),))
    answers, last = run(make_engine(), *requests(but=poison))
    assert last["c"].error == "sorry"
    assert without(answers, "c") == without(drawn, "c")


@pytest.mark.parametrize("error", [ValueError("no"), Panic()])
def test_a_decoder_that_raises_harms_its_own_sequence(drawn: Answers, error: BaseException) -> None:
    engine = make_engine()
    others = {each for name in "abc" for each in drawn[name]} | {e for r in requests() for e in r.prompt_token_ids}
    engine._decode = fails_on(frozenset(drawn["d"]) - others, error)
    answers, last = run(engine, *requests())
    assert last["d"].error == BROKEN
    assert without(answers, "d") == without(drawn, "d")
    engine._decode = lambda ids: ""
    assert run(engine, *requests())[0] == drawn


def fails_on(token_ids: frozenset[int], error: BaseException) -> Callable[[Sequence[int]], str]:
    def decode(ids: Sequence[int]) -> str:
        if token_ids & set(ids):
            raise error
        return ""

    return decode


@pytest.mark.parametrize("error", [ValueError("no"), Panic()])
def test_a_grammar_that_raises_harms_its_own_sequence(drawn: Answers, error: BaseException) -> None:
    engine = make_engine()
    for request in requests():
        engine.add(request)
    engine._sequences["a"].matcher = RaisingMatcher(error)  # type: ignore[assignment]
    answers, last = run(engine)
    assert last["a"].error == BROKEN
    assert without(answers, "a") == without(drawn, "a")


class RaisingMatcher:
    """Allows everything, and raises when a token is told."""

    mask_bytes = 40
    failure = None
    is_finished = False

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def write_mask(self, address: int) -> None:
        ctypes.memset(address, 0xFF, self.mask_bytes)

    def accept(self, token_id: int) -> None:
        raise self._error


def test_a_listener_that_raises_harms_its_own_sequence(drawn: Answers) -> None:
    heard: list[int] = []

    def listen(logits: torch.Tensor) -> None:
        heard.append(len(logits))
        raise ValueError("the listener is gone")

    scored = EngineRequest("b", tuple(range(3, 80)), request_of("b", max_tokens=0).params, 0.0, on_logits=listen)
    answers, last = run(make_engine(), *requests(but=scored))
    assert last["b"].error == BROKEN
    assert len(heard) == 1
    assert without(answers, "b") == without(drawn, "b")


def test_scores_are_told_once_beside_one_that_breaks_the_steps() -> None:
    scored = request_of("a", list(range(3, 150)), prompt_logprobs=True, logprobs=1)
    alone, beside = make_engine(), make_engine(breaks("b"), breaks("c", after=True))
    expected = told(alone, scored)
    assert [entry[0] for entry in expected] == list(scored.prompt_token_ids[1:])
    found = told(beside, request_of("b"), scored, request_of("c"))
    assert [entry[0] for entry in found] == [entry[0] for entry in expected]
    assert [entry[1] for entry in found] == pytest.approx([entry[1] for entry in expected], abs=1e-4)


def told(engine: Engine, *requests: EngineRequest) -> list[tuple[int, float]]:
    for request in requests:
        engine.add(request)
    outputs = [output for step in steps(engine) for output in step]
    return [(entry.token_id, entry.logprob) for output in outputs for entry in output.prompt_logprobs]


@pytest.mark.parametrize("broken", ["b", "d"])
def test_a_shared_prompt_is_copied_for_those_who_go_on(broken: str) -> None:
    shared = [request_of(name, [*SHARED, ord(name)]) for name in NAMES]
    plain, _ = run(make_engine(), *shared)
    engine = make_engine(breaks(broken, after=True, from_step=3))
    engine.add(shared[0])
    early = [engine.step(), engine.step()]  # the prompt is computed, and the others copy it from the live row
    answers, last = run(engine, *shared[1:])
    assert len(early) == 2
    assert engine.scheduler.slots.hit_tokens >= 3 * len(SHARED)
    assert last[broken].error == "sorry"
    assert without(answers, broken, "a") == without(plain, broken, "a")


def test_a_spoilt_row_is_cleared_for_the_next_one_although_a_step_was_done_in_parts(drawn: Answers) -> None:
    spoils_a = Fault(FaultKind.NAN, rows=lambda chunk: chunk.sequence.request_id == "a")
    engine = make_engine(spoils_a, breaks("c"), max_num_seqs=2)
    spoil = SpoilingRunner(engine)
    engine.runner.runner = spoil  # type: ignore[attr-defined]
    answers, last = run(engine, *requests())
    assert last["a"].error is not None
    assert last["c"].error == "sorry"
    assert without(answers, "a", "c") == without(drawn, "a", "c")


class SpoilingRunner:
    """Leaves NaN wherever `a` and `c` had their keys, as a model that overflows does."""

    def __init__(self, engine: Engine) -> None:
        self._runner = engine.runner.runner  # type: ignore[attr-defined]
        self.kv_bytes_per_token, self.rotary_rule = 0, None
        self.reserve, self.trim = self._runner.reserve, self._runner.trim

    def forward(self, batch: ScheduledBatch) -> torch.Tensor:
        logits: torch.Tensor = self._runner.forward(batch)
        for chunk in batch.chunks:
            if chunk.sequence.request_id in "ac":
                for layer in self._runner.cache.layers.values():
                    layer.keys[chunk.slot], layer.values[chunk.slot] = torch.nan, torch.nan
        return logits


@pytest.mark.parametrize("failing", [2, 3, 4, 7])
def test_a_lack_of_memory_while_a_step_is_done_in_parts_changes_nothing_more(drawn: Answers, failing: int) -> None:
    lacks = Fault(FaultKind.OUT_OF_MEMORY, lambda step, _batch: step == failing)
    answers, last = run(make_engine(lacks, breaks("c")), *requests())
    assert last["c"].error in ("sorry", OUT_OF_MEMORY)
    assert without(answers, "c") == without(drawn, "c")
    assert reasons(last)["a"] is FinishReason.LENGTH
