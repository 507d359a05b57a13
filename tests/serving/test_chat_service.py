"""The narrow waist over a tiny real model: answers, refusals, many at once, people who leave, engines that fail."""

import asyncio
import threading

import pytest

from myserve_ui.core.model_info import LoadState
from myserve_ui.core.outputs import FinishReason, RequestState
from myserve_ui.core.requests import ChatRequest, CompletionRequest, Message
from myserve_ui.core.sampling_params import SamplingParams
from myserve_ui.errors import (
    ContextLengthExceededError,
    EngineDeadError,
    InvalidRequestError,
    ModelLoadError,
    ModelLoadingError,
    ModelNotFoundError,
    OverloadedError,
    ShuttingDownError,
)
from myserve_ui.serving.engine_builder import EngineLimits
from myserve_ui.serving.request_stream import StreamLimits
from tests.conftest import chat_request, load_tiny


async def read(stream):
    async with stream:
        outputs = [output async for output in stream]
    return "".join(output.text_delta for output in outputs), outputs[-1]


async def answer(service, request):
    return await read(await service.start_chat(request))


async def until(condition, seconds=5.0):
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.005)


def running(service):
    return [(engine.num_running, engine.num_waiting) for engine in service.status().engines]


async def test_echo_answers_with_the_prompt(make_service):
    text, last = await answer(await make_service("echo"), chat_request("Hello 🙂", max_tokens=100))
    assert "Hello 🙂" in text
    assert last.finish_reason is FinishReason.STOP


async def test_many_at_once_match_their_solo_texts(make_service):
    service = await make_service("llama")
    requests = [chat_request("word " * n, max_tokens=20) for n in (1, 40, 3, 12, 25, 2, 7, 18)]
    alone = [(await answer(service, request))[0] for request in requests]
    together = await asyncio.gather(*(answer(service, request) for request in requests))
    assert [text for text, _ in together] == alone


async def test_seeded_answers_repeat_whatever_the_neighbours_do(make_service):
    service = await make_service("llama")
    seeded = chat_request("once", temperature=1.0, seed=11, max_tokens=30)
    alone, _ = await answer(service, seeded)
    others = [chat_request(str(n), temperature=1.5, top_p=0.9, max_tokens=30) for n in range(5)]
    together = await asyncio.gather(answer(service, seeded), *(answer(service, other) for other in others))
    assert together[0][0] == alone


async def test_an_absent_max_tokens_is_the_room_left(make_service):
    service = await make_service("llama", limits=EngineLimits(max_model_len=128))
    _, last = await answer(service, chat_request("x", max_tokens=None, ignore_eos=True))
    assert last.usage.total_tokens == 128
    assert last.finish_reason is FinishReason.LENGTH


async def test_a_prompt_that_leaves_room_for_one_token_is_served(make_service):
    service = await make_service("llama", limits=EngineLimits(max_model_len=128))
    stream = await service.start_completion(CompletionRequest((65,) * 127, params=SamplingParams(max_tokens=1)))
    _, last = await read(stream)
    assert last.usage.completion_tokens == 1


@pytest.mark.parametrize(
    ("prompt", "params", "error"),
    [
        ((65,) * 128, {}, ContextLengthExceededError),
        ((65,) * 100, {"max_tokens": 29}, ContextLengthExceededError),
        ((), {}, InvalidRequestError),
        ((-1,), {}, InvalidRequestError),
        ((320,), {}, InvalidRequestError),
        ((65,), {"stop_token_ids": (10**6,)}, InvalidRequestError),
    ],
)
async def test_what_cannot_be_served_is_refused_before_the_first_output(make_service, prompt, params, error):
    service = await make_service("llama", limits=EngineLimits(max_model_len=128))
    with pytest.raises(error):
        await service.start_completion(CompletionRequest(prompt, params=SamplingParams(**params)))
    assert (await answer(service, chat_request()))[1].finish_reason


async def test_both_numbers_stand_in_a_context_error(make_service):
    service = await make_service("llama", limits=EngineLimits(max_model_len=128))
    with pytest.raises(ContextLengthExceededError, match=r"100 tokens.*29.*128.*at most 28"):
        await service.start_completion(CompletionRequest((65,) * 100, params=SamplingParams(max_tokens=29)))


async def test_an_unknown_model_is_named_with_the_known_ones(make_service):
    service = await make_service("llama", "gpt2")
    with pytest.raises(ModelNotFoundError, match=r"llama.*gpt2"):
        await service.start_chat(chat_request(model="../../etc/passwd"))


async def test_an_unloaded_model_refuses_and_starts_to_load(make_service):
    service = await make_service("llama", "gpt2")
    with pytest.raises(ModelLoadingError):
        await service.start_chat(chat_request(model="gpt2"))
    await until(lambda: service.model("gpt2").state is LoadState.READY)
    assert (await answer(service, chat_request(model="gpt2")))[1].finish_reason


async def test_concurrent_first_loads_load_once(make_service):
    loads = []

    def load(entry, on_progress):
        loads.append(entry.key)
        return load_tiny(entry)

    service = await make_service("llama", "gpt2", load=load)

    async def wait_for_load():
        async for _progress in service.load("gpt2"):
            pass

    await asyncio.gather(*(wait_for_load() for _ in range(10)))
    assert loads == ["llama", "gpt2"]


async def test_a_failed_load_says_why_to_everybody_and_may_be_tried_again(make_service):
    broken = True

    def load(entry, on_progress):
        if entry.key == "gpt2" and broken:
            raise ModelLoadError("no weights here")
        return load_tiny(entry)

    service = await make_service("llama", "gpt2", load=load)
    with pytest.raises(ModelLoadError, match="no weights here"):
        async for _progress in service.load("gpt2"):
            pass
    assert (service.model("gpt2").state, service.model("gpt2").reason) == (LoadState.FAILED, "no weights here")
    broken = False
    async for _progress in service.load("gpt2"):
        pass
    assert service.model("gpt2").state is LoadState.READY


async def test_leaving_early_frees_the_row(make_service):
    service = await make_service("llama")
    stream = await service.start_chat(chat_request(max_tokens=400, ignore_eos=True))
    async with stream:
        async for output in stream:
            if output.token_ids:
                break
    await until(lambda: running(service) == [(0, 0)])
    assert service.status().engines[0].kv_tokens_used == 0


async def test_a_full_queue_is_refused_and_empties_again(make_service):
    service = await make_service("llama", limits=EngineLimits(max_num_seqs=1, max_waiting=2))
    streams = [await service.start_chat(chat_request(max_tokens=300, ignore_eos=True)) for _ in range(3)]
    with pytest.raises(OverloadedError, match="2 requests are waiting"):
        await service.start_chat(chat_request())
    for stream in streams:
        await stream.aclose()
    await until(lambda: running(service) == [(0, 0)])
    assert (await answer(service, chat_request()))[1].finish_reason


async def test_a_waiting_request_hears_its_place(make_service):
    limits = StreamLimits(heartbeat=0.02)
    service = await make_service("llama", limits=EngineLimits(max_num_seqs=1), stream_limits=limits)
    first = await service.start_chat(chat_request(max_tokens=400, ignore_eos=True))
    second = await service.start_chat(chat_request())
    places = []
    async with first, second:
        await until(lambda: running(service) == [(1, 1)])
        output = await anext(second)
        places.append((output.state, output.queue_position))
    assert places == [(RequestState.WAITING, 1)]


async def test_a_slow_reader_gets_everything_merged(make_service):
    service = await make_service("llama")
    request = chat_request(max_tokens=60, ignore_eos=True)
    expected, _ = await answer(service, request)
    stream = await service.start_chat(request)
    await until(lambda: service.status().engines[0].generation_tokens_total >= 120)
    outputs = [output async for output in stream]
    assert "".join(output.text_delta for output in outputs) == expected
    assert len(outputs) < 60


async def test_a_request_that_takes_too_long_is_ended_with_a_sentence(make_service):
    service = await make_service("llama", stream_limits=StreamLimits(heartbeat=0.01, timeout=0.05))
    _, last = await answer(service, chat_request(max_tokens=450, ignore_eos=True))
    assert last.finish_reason is FinishReason.ERROR
    assert "longer than 0.05 seconds" in last.error
    await until(lambda: running(service) == [(0, 0)])


def break_forward(service, error, *, times=1):
    """Make the next forwards of the first engine raise."""
    runner = service._pool.engines()[0].worker._engine.runner
    original, left = runner.forward, [times]

    def forward(batch):
        if left[0]:
            left[0] -= 1
            raise error
        return original(batch)

    runner.forward = forward


async def test_a_step_that_raises_fails_its_requests_and_the_engine_goes_on(make_service):
    service = await make_service("llama")
    expected, _ = await answer(service, chat_request())
    break_forward(service, RuntimeError("secret detail"))
    _, last = await answer(service, chat_request())
    assert last.finish_reason is FinishReason.ERROR
    assert "secret" not in last.error
    assert (await answer(service, chat_request()))[0] == expected
    assert service.status().ready


async def test_a_dead_engine_fails_everyone_at_once_and_shows(make_service):
    service = await make_service("llama", "gpt2")
    streams = [await service.start_chat(chat_request(max_tokens=300, ignore_eos=True)) for _ in range(3)]
    break_forward(service, SystemExit())
    async with asyncio.timeout(5):
        ends = await asyncio.gather(*(read(stream) for stream in streams))
    assert all(last.finish_reason is FinishReason.ERROR for _, last in ends)
    assert all(last.error_code == "engine_dead" for _, last in ends)
    assert (service.status().ready, service.status().code) == (False, "engine_dead")
    assert service.model("llama").state is LoadState.FAILED
    with pytest.raises(EngineDeadError):
        await service.start_chat(chat_request())


async def test_health_tells_a_load_from_readiness(make_service):
    service = await make_service("llama")
    assert service.status().ready
    service.drain()
    assert service.status().code == "shutting_down"
    with pytest.raises(ShuttingDownError):
        await service.start_chat(chat_request())


async def test_a_stalled_engine_shows(make_service):
    service = await make_service("llama")
    service._stall_seconds = 0.0
    runner = service._pool.engines()[0].worker._engine.runner
    original, release = runner.forward, threading.Event()

    def forward(batch):
        release.wait(5)
        return original(batch)

    runner.forward = forward
    stream = await service.start_chat(chat_request())
    await until(lambda: service.status().code == "engine_stalled")
    release.set()
    await read(stream)
    assert service.status().ready


async def test_running_requests_finish_within_the_grace_time(make_service):
    service = await make_service("llama")
    service._grace = 10.0
    stream = await service.start_chat(chat_request(max_tokens=40, ignore_eos=True))
    (_, last), _ = await asyncio.gather(read(stream), service.shut_down())
    assert last.finish_reason is FinishReason.LENGTH


async def test_after_the_grace_time_what_runs_is_ended_and_the_log_says_how_many(make_service, caplog):
    service = await make_service("llama")
    stream = await service.start_chat(chat_request(max_tokens=450, ignore_eos=True))
    await anext(stream)
    (_, last), _ = await asyncio.gather(read(stream), service.shut_down())
    assert (last.finish_reason, last.error_code) == (FinishReason.ERROR, "shutting_down")
    assert "cut off after 0 s of grace: 1" in caplog.text


async def test_a_second_turn_reports_cached_tokens(make_service):
    service = await make_service("llama")
    first = (Message("user", "tell me something long enough to matter"),)
    text, _ = await answer(service, ChatRequest(first, params=SamplingParams(temperature=0.0, max_tokens=8)))
    second = (*first, Message("assistant", text), Message("user", "more"))
    _, last = await answer(service, ChatRequest(second, params=SamplingParams(temperature=0.0, max_tokens=4)))
    assert last.usage.cached_tokens > 30


async def test_choices_of_one_seed_differ_and_repeat_and_the_first_is_the_single_answer(make_service):
    service = await make_service("llama")
    request = chat_request("choose", temperature=1.2, seed=7, max_tokens=40)

    async def choices(n):
        streams = await service.start_chat_choices(request, n)
        return [text for text, _ in await asyncio.gather(*(read(stream) for stream in streams))]

    first, again, single = await choices(3), await choices(3), await choices(1)
    assert len(set(first)) == 3
    assert first == again
    assert single[0] == first[0]


async def test_choices_that_do_not_all_fit_the_queue_are_refused_whole(make_service):
    service = await make_service("llama", limits=EngineLimits(max_num_seqs=2, max_waiting=2))
    with pytest.raises(InvalidRequestError, match="more than the 4"):
        await service.start_chat_choices(chat_request(max_tokens=300), 5)
    assert running(service) == [(0, 0)]
    async with await service.start_chat(chat_request(max_tokens=300, ignore_eos=True)):
        with pytest.raises(OverloadedError):
            await service.start_chat_choices(chat_request(max_tokens=300), 4)
    streams = await service.start_chat_choices(chat_request(max_tokens=3, ignore_eos=True), 4)
    ends = await asyncio.gather(*(read(stream) for stream in streams))
    assert [last.usage.completion_tokens for _, last in ends] == [3, 3, 3, 3]


async def test_the_status_tells_the_budget_before_the_first_request(make_service):
    service = await make_service("llama")
    assert service.status().engines[0].kv_tokens_total > 0
