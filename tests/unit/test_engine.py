"""The engine's loop over a scripted runner: order, budgets, ends, aborts, failures, timings."""

import itertools
from dataclasses import replace

import pytest

from myserve_ui.core.outputs import FinishReason, RequestState
from myserve_ui.engine.echo_runner import EchoRunner
from myserve_ui.engine.engine import Engine, EngineConfig
from myserve_ui.engine.offline import run_steps
from myserve_ui.engine.sequence import EngineRequest
from tests.support.fakes import FakeClock, ScriptedRunner, decode_bytes, says
from tests.support.sampling import resolved

END = 299


def make_engine(script, *, seqs=4, batched=32, length=512, tokens=2048):
    config = EngineConfig(seqs, batched, length, tokens, eos_token_ids=frozenset({END}), debug=True)
    clock = FakeClock()
    engine = Engine(ScriptedRunner(script), decode_bytes, config=config, clock=clock)
    return engine, clock


def request_of(name="r", prompt=(1, 2, 3), **params):
    params = resolved(**{"temperature": 0.0, "max_tokens": 10, **params})
    return EngineRequest(name, tuple(prompt), params, arrival=100.0)


def run(engine, limit=500):
    outputs = [output for step in itertools.islice(run_steps(engine), limit) for output in step]
    assert not engine.has_work, "the engine does not come to an end"
    return outputs


def text_of(outputs, name="r"):
    return "".join(output.text_delta for output in outputs if output.request_id == name)


def last(outputs, name="r"):
    return [output for output in outputs if output.request_id == name][-1]


def test_an_end_token_ends_the_answer_and_is_counted_not_shown():
    engine, _ = make_engine(says(*b"Hi", END))
    engine.add(request_of())
    outputs = run(engine)
    assert (text_of(outputs), last(outputs).finish_reason) == ("Hi", FinishReason.STOP)
    assert last(outputs).usage.completion_tokens == 3


def test_an_end_token_on_the_last_allowed_token_is_a_stop():
    engine, _ = make_engine(says(*b"Hi", END))
    engine.add(request_of(max_tokens=3))
    assert last(run(engine)).finish_reason is FinishReason.STOP


@pytest.mark.parametrize("max_tokens", [1, 5, 20])
def test_max_tokens_is_met_exactly(max_tokens):
    engine, _ = make_engine(says(65))
    engine.add(request_of(max_tokens=max_tokens))
    outputs = run(engine)
    assert (last(outputs).usage.completion_tokens, last(outputs).finish_reason) == (max_tokens, FinishReason.LENGTH)
    assert text_of(outputs) == "A" * max_tokens


def test_ignore_eos_goes_on_to_the_length():
    engine, _ = make_engine(says(65, END, 66))
    engine.add(request_of(ignore_eos=True, max_tokens=5))
    assert text_of(run(engine)) == "ABBB"


def test_a_stop_string_on_the_last_allowed_token_is_a_stop():
    engine, _ = make_engine(says(*b"one two"))
    engine.add(request_of(stop=("two",), max_tokens=7))
    outputs = run(engine)
    assert (text_of(outputs), last(outputs).finish_reason) == ("one ", FinishReason.STOP)
    assert last(outputs).stop_reason == "two"


def test_text_held_back_for_a_stop_is_released_at_the_end():
    engine, _ = make_engine(says(*b"ends zz", END))
    engine.add(request_of(stop=("zzqq",)))
    assert text_of(run(engine)) == "ends zz"


def test_a_stop_string_before_min_tokens_does_not_count():
    engine, _ = make_engine(says(*b"x.y.z.", END))
    engine.add(request_of(stop=(".",), min_tokens=3))
    assert text_of(run(engine)) == "x.y"


def test_a_stop_token_id_ends_the_answer():
    engine, _ = make_engine(says(*b"abc"))
    engine.add(request_of(stop_token_ids=(ord("c"),)))
    outputs = run(engine)
    assert (text_of(outputs), last(outputs).stop_reason) == ("ab", ord("c"))


def test_half_a_character_at_the_end_is_flushed():
    engine, _ = make_engine(says(*"é".encode()[:1], END))
    engine.add(request_of())
    assert text_of(run(engine)) == "\ufffd"


def test_a_long_prompt_is_computed_in_chunks_beside_running_streams():
    engine, _ = make_engine(says(65), batched=32)
    engine.add(request_of("short", max_tokens=30))
    engine.step()
    engine.add(request_of("long", prompt=range(200), max_tokens=2))
    engine.runner.batches.clear()
    run(engine)
    chunks = [batch for batch in engine.runner.batches if any(chunk.length > 1 for chunk in batch.chunks)]
    assert len(chunks) == 7
    assert all(batch.num_tokens <= 32 for batch in engine.runner.batches)
    assert all(batch.chunks[0].sequence.request_id == "short" for batch in chunks)


def test_no_gap_of_a_running_stream_exceeds_one_full_step_while_long_prompts_come_in():
    fixed, per_token, batched = 0.035, 0.001, 32
    engine, clock = make_engine(says(65), batched=batched)
    engine.runner.before_forward = lambda _: clock.advance(fixed + per_token * engine.runner.batches[-1].num_tokens)
    engine.add(request_of("stream", max_tokens=60))
    engine.step()
    for index in range(3):
        engine.add(request_of(f"long{index}", prompt=range(index, 400 + index), max_tokens=2))
    times = []
    for outputs in run_steps(engine):
        times += [clock.now for output in outputs if output.request_id == "stream" and output.token_ids]
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert len(gaps) == 58
    assert max(gaps) == pytest.approx(fixed + per_token * batched)
    assert min(gaps) == pytest.approx(fixed + per_token)


def test_prefill_progress_is_reported():
    engine, _ = make_engine(says(65), batched=32)
    engine.add(request_of(prompt=range(70), max_tokens=1))
    outputs = run(engine)
    assert [(output.state, output.num_computed_tokens) for output in outputs] == [
        (RequestState.PREFILL, 32), (RequestState.PREFILL, 64), (RequestState.FINISHED, 70),
    ]  # fmt: skip


def test_more_requests_than_rows_wait_in_order():
    engine, _ = make_engine(says(65), seqs=2)
    for name in "abcde":
        engine.add(request_of(name, prompt=(ord(name),), max_tokens=3))
    engine.step()
    assert engine.snapshot().waiting == ("c", "d", "e")
    finished = [output.request_id for output in run(engine) if output.finish_reason]
    assert finished == list("abcde")


def test_an_aborted_request_frees_its_row_before_the_next_step():
    engine, _ = make_engine(says(65), seqs=1)
    engine.add(request_of("a", max_tokens=400))
    engine.add(request_of("b", prompt=(9,), max_tokens=2))
    engine.step()
    assert engine.abort("a").finish_reason is FinishReason.ABORT
    assert {output.request_id for output in engine.step()} == {"b"}


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_aborting_at_any_stage_leaves_nothing_behind(steps):
    engine, _ = make_engine(says(65), batched=32)
    engine.add(request_of(prompt=range(80), max_tokens=50))
    for _ in range(steps):
        engine.step()
    engine.abort("r")
    assert not engine.has_work
    assert engine.snapshot().kv_tokens_used == 0
    assert engine.abort("r") is None


def test_a_step_that_raises_fails_only_its_own_requests():
    engine, _ = make_engine(says(65), seqs=1)
    engine.add(request_of("a"))
    engine.add(request_of("b", prompt=(9,), max_tokens=2))

    def fail_once(step):
        if step == 2:
            raise RuntimeError("boom")

    engine.runner.before_forward = fail_once
    engine.step()
    with pytest.raises(RuntimeError):
        engine.step()
    failed = engine.fail_step("sorry")
    assert [(output.request_id, output.finish_reason, output.error) for output in failed] == [
        ("a", FinishReason.ERROR, "sorry")
    ]
    assert last(run(engine), "b").finish_reason is FinishReason.LENGTH


def test_preemption_gives_the_newest_sequence_s_place_to_older_ones_and_resumes_it():
    engine, _ = make_engine(
        lambda chunk: 65 + chunk.sequence.num_output_tokens % 26, batched=512, length=192, tokens=192
    )
    for name in ("old", "new"):
        engine.add(request_of(name, prompt=[ord(name[0])] * 60, max_tokens=100))
    outputs = run(engine)
    alphabet = "".join(chr(65 + i % 26) for i in range(100))
    assert engine.snapshot().preemptions > 0
    assert (text_of(outputs, "old"), text_of(outputs, "new")) == (alphabet, alphabet)
    assert last(outputs, "old").timings.last_token <= last(outputs, "new").timings.last_token


def test_the_second_turn_computes_only_what_is_new():
    engine, _ = make_engine(says(*b"ab", END))
    engine.add(request_of("first", prompt=range(50)))
    run(engine)
    engine.add(request_of("second", prompt=[*range(50), 97, 98, 7, 7]))
    assert last(run(engine), "second").usage.cached_tokens == 52


def test_cache_prompt_off_computes_everything():
    engine, _ = make_engine(says(END))
    engine.add(request_of("first", prompt=range(50)))
    run(engine)
    plain = request_of("second", prompt=range(50))
    engine.add(EngineRequest(plain.request_id, plain.prompt_token_ids, plain.params, 100.0, cache_prompt=False))
    assert last(run(engine), "second").usage.cached_tokens == 0


def test_timings_split_queue_prefill_and_decode():
    engine, clock = make_engine(says(65), batched=32)
    engine.runner.before_forward = lambda _step: clock.advance(1.0)
    clock.advance(2.0)
    engine.add(request_of(prompt=range(64), max_tokens=5))
    timings = last(run(engine)).timings
    assert (timings.queue_time, timings.prefill_time, timings.ttft) == (2.0, 2.0, 4.0)
    assert (timings.decode_time, timings.tpot, timings.tokens_per_second) == (4.0, 1.0, 1.0)


def test_a_single_token_has_no_time_per_output_token():
    engine, _ = make_engine(says(65))
    engine.add(request_of(max_tokens=1))
    assert last(run(engine)).timings.tpot is None


def test_counters_and_books_add_up():
    engine, _ = make_engine(says(65))
    for name in "abc":
        engine.add(request_of(name, max_tokens=4))
    run(engine)
    snapshot = engine.snapshot()
    assert (snapshot.prompt_tokens, snapshot.generation_tokens, snapshot.num_running) == (9, 12, 0)


def test_choices_of_one_prompt_compute_it_once_and_differ():
    engine, _ = make_engine(lambda chunk: 65 + chunk.sequence.random.randrange(26), batched=32)
    base = request_of("c0", prompt=range(100), max_tokens=12, temperature=1.0, seed=7)
    engine.add(base)
    for choice in (1, 2, 3):
        engine.add(replace(base, request_id=f"c{choice}", choice=choice, parent="c0"))
    outputs = run(engine)
    computed = sum(chunk.length for batch in engine.runner.batches for chunk in batch.chunks if chunk.length > 1)
    texts = {text_of(outputs, f"c{choice}") for choice in range(4)}
    assert computed == 100
    assert len(texts) == 4


def test_choices_go_on_when_the_first_is_aborted_before_its_prompt_is_done():
    engine, _ = make_engine(says(65), batched=32)
    base = request_of("c0", prompt=range(100), max_tokens=3)
    engine.add(base)
    engine.add(replace(base, request_id="c1", choice=1, parent="c0"))
    engine.step()
    engine.abort("c0")
    assert text_of(run(engine), "c1") == "AAA"


def test_others_pass_by_choices_that_wait():
    engine, _ = make_engine(says(65), batched=32)
    base = request_of("c0", prompt=range(100), max_tokens=3)
    engine.add(base)
    engine.add(replace(base, request_id="c1", choice=1, parent="c0"))
    engine.add(request_of("other", prompt=(1,), max_tokens=1))
    run(engine)
    first = next(i for i, batch in enumerate(engine.runner.batches) if "other" in names(batch))
    second = next(i for i, batch in enumerate(engine.runner.batches) if "c1" in names(batch))
    assert first < second


def names(batch):
    return {chunk.sequence.request_id for chunk in batch.chunks}


def test_a_prompt_is_scored_token_by_token_even_if_it_is_cached():
    engine, _ = make_engine(says(65), batched=32)
    engine.add(request_of("warm", prompt=range(70), max_tokens=1))
    run(engine)
    engine.add(request_of("scored", prompt=range(70), max_tokens=2, prompt_logprobs=True, logprobs=1))
    outputs = run(engine)
    scored = [entry for output in outputs for entry in output.prompt_logprobs]
    assert [entry.token_id for entry in scored] == list(range(1, 70))
    assert [len(output.logprobs) for output in outputs if output.logprobs] == [1, 1]


def test_max_tokens_0_computes_the_prompt_and_ends():
    engine, _ = make_engine(says(65), batched=32)
    engine.add(request_of(prompt=range(70), max_tokens=0, prompt_logprobs=True))
    outputs = run(engine)
    assert last(outputs).finish_reason is FinishReason.LENGTH
    assert last(outputs).usage.completion_tokens == 0
    assert sum(len(output.prompt_logprobs) for output in outputs) == 69


def test_scores_are_reported_once_although_the_prompt_is_computed_again():
    engine, _ = make_engine(says(65), batched=64, length=192, tokens=192)
    engine.add(request_of("old", prompt=[1] * 60, max_tokens=100))
    engine.add(request_of("new", prompt=[2] * 60, max_tokens=100, prompt_logprobs=True))
    outputs = run(engine)
    assert engine.snapshot().preemptions > 0
    assert sum(len(output.prompt_logprobs) for output in outputs) == 59


def test_an_echo_scores_its_own_prompt_as_likely():
    config = EngineConfig(2, 32, 512, 1024, eos_token_ids=frozenset({END}), debug=True)
    engine = Engine(EchoRunner(300, END), decode_bytes, config=config)
    engine.add(request_of(prompt=b"hello there, this is an echo of some length", prompt_logprobs=True, max_tokens=100))
    outputs = run(engine)
    assert text_of(outputs) == "hello there, this is an echo of some length"
    assert all(entry.logprob > -0.1 for output in outputs for entry in output.prompt_logprobs)
