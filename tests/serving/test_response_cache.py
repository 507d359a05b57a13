"""Answers that come out the same again are kept, and given only to whoever asks exactly the same."""

from __future__ import annotations

import asyncio
from dataclasses import fields, replace

import pytest

from myserve_ui.core.outputs import FinishReason, RequestOutput, RequestState, RequestTimings, Usage, join_outputs
from myserve_ui.core.requests import ChatRequest, CompletionRequest, Message
from myserve_ui.core.sampling_params import SamplingParams
from myserve_ui.core.schemas.structured_output import StructuredOutput
from myserve_ui.engine.sequence import EngineRequest
from myserve_ui.serving.chat_service import ChatService
from myserve_ui.serving.engine_builder import EngineLimits
from myserve_ui.serving.request_stream import RequestStream, StreamLimits
from myserve_ui.serving.response_cache import AnswerRecorder, ResponseCache, response_key
from tests.conftest import MakeService, chat_request
from tests.support.sampling import resolved

PARAMS = resolved(temperature=0.0, max_tokens=5)
REQUEST = EngineRequest("req-1", (1, 2, 3), PARAMS, arrival=0.0)


def key_of(request: EngineRequest = REQUEST, *, model: str = "m", owner: str = "", **params: object) -> str | None:
    asked = replace(request, params=replace(request.params, **params))
    return response_key(asked, model=model, owner=owner)


OTHERS = {
    "temperature": 0.001,
    "top_p": 0.5,
    "top_k": 3,
    "min_p": 0.1,
    "repetition_penalty": 1.1,
    "presence_penalty": 0.5,
    "frequency_penalty": 0.5,
    "logit_bias": ((1, 2.0),),
    "seed": 1,
    "max_tokens": 6,
    "min_tokens": 1,
    "stop": ("x",),
    "stop_token_ids": (4,),
    "ignore_eos": True,
    "logprobs": 0,
    "prompt_logprobs": True,
    "structured_output": StructuredOutput.json_object(),
}
"""For each parameter a value that is not the one of PARAMS."""


@pytest.mark.parametrize("name", OTHERS)
def test_every_parameter_changes_the_key(name: str) -> None:
    assert key_of(**{name: OTHERS[name]}) != key_of()


def test_no_parameter_of_the_engine_s_request_is_forgotten() -> None:
    unlike = {"prompt_token_ids": (1, 2), "choice": 1, "cache_prompt": False, "params": replace(PARAMS, max_tokens=7)}
    keys = {key_of(replace(REQUEST, **{name: value})) for name, value in unlike.items()}  # type: ignore[arg-type]
    assert len(keys | {key_of()}) == len(unlike) + 1
    told = {"request_id", "arrival", "parent"}  # which change no answer
    told |= {"grammar"}  # made of params.structured_output, which is part of the key
    told |= {"on_logits", "first_scored"}  # of requests that score a prompt, which are never answered from the cache
    assert {field.name for field in fields(EngineRequest)} - set(unlike) == told


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"stop": ("ab",)}, {"stop": ("a", "b")}),
        ({"stop": ("a", "b")}, {"stop": ("b", "a")}),
        ({"stop": ("1:a",)}, {"stop": ("1", "a")}),
        ({"stop_token_ids": (1, 23)}, {"stop_token_ids": (12, 3)}),
        ({"logit_bias": ((1, 23.0),)}, {"logit_bias": ((12, 3.0),)}),
        ({"seed": 1}, {"seed": -1}),
        ({"seed": 0}, {"seed": None}),
        ({"logprobs": 0}, {"logprobs": None}),
    ],
)
def test_parts_that_look_alike_when_joined_give_different_keys(
    one: dict[str, object], other: dict[str, object]
) -> None:
    assert key_of(**one) != key_of(**other)


def test_models_and_owners_never_share() -> None:
    assert len({key_of(), key_of(model="m:nf4"), key_of(owner="m"), key_of(model="", owner="m")}) == 4


def test_equal_numbers_and_biases_in_another_order_give_one_key() -> None:
    assert key_of(temperature=0) == key_of(temperature=0.0) == key_of(temperature=-0.0)
    assert key_of(logit_bias=((1, 2.0), (3, 4.0))) == key_of(logit_bias=((3, 4), (1, 2)))


def test_a_sampled_answer_without_a_seed_has_no_key() -> None:
    assert key_of(temperature=1.0) is None
    assert key_of(temperature=1.0, seed=0) is not None


def answer_of(text: str = "x", reason: FinishReason = FinishReason.STOP) -> RequestOutput:
    return RequestOutput(
        "req-1", RequestState.FINISHED, Usage(3, 1), RequestTimings(0.0), text, (7,), finish_reason=reason
    )


def test_the_answer_unused_for_longest_goes_first() -> None:
    cache = ResponseCache(2, 10**6)
    cache.store("a", answer_of())
    cache.store("b", answer_of())
    assert cache.find(["a"])
    cache.store("c", answer_of())
    assert (cache.find(["b"]), cache.status().entries) == (None, 2)
    assert cache.find(["a", "c"]) == [answer_of(), answer_of()]


def test_bytes_are_bounded_and_one_huge_answer_does_not_sweep_the_rest() -> None:
    cache = ResponseCache(1000, 100_000)
    for number in range(100):
        cache.store(str(number), answer_of("x" * 1000))
        assert cache.status().num_bytes <= 100_000
    kept = cache.status().entries
    assert 10 < kept < 100
    cache.store("huge", answer_of("x" * 50_000))
    assert cache.status().entries == kept


def test_the_books_return_to_zero_when_everything_is_pushed_out() -> None:
    cache = ResponseCache(1, 10**6)
    for number in range(5):
        cache.store(str(number), answer_of("y" * number))
    assert cache.status().num_bytes < 1200


@pytest.mark.parametrize("reason", [FinishReason.ABORT, FinishReason.ERROR])
def test_what_is_not_whole_is_not_kept(reason: FinishReason) -> None:
    cache = ResponseCache(8, 10**6)
    recorder = AnswerRecorder(cache, "a")
    recorder.see(replace(answer_of(), finish_reason=None))
    recorder.see(answer_of(reason=reason))
    assert cache.status().entries == 0


async def read(stream: RequestStream) -> RequestOutput:
    """The whole answer as one output."""
    async with stream:
        return join_outputs([output async for output in stream])


async def ask(service: ChatService, request: ChatRequest) -> tuple[bool, RequestOutput]:
    stream = await service.start_chat(request)
    return stream.from_cache, await read(stream)


def kept(text: str = "Hello", *, owner: str = "", model: str = "", **params: object) -> ChatRequest:
    return replace(chat_request(text, model=model, **params), cache_response=True, cache_owner=owner)


@pytest.fixture
def cache() -> ResponseCache:
    return ResponseCache(64, 2**20)


@pytest.mark.parametrize(
    "params", [{}, {"temperature": 1.3, "seed": 5}, {"logprobs": 3}, {"stop": ("a", "e")}, {"max_tokens": 1}]
)
async def test_the_same_question_is_answered_again_word_for_word(
    make_service: MakeService, cache: ResponseCache, params: dict[str, object]
) -> None:
    service = await make_service("llama", cache=cache)
    first_hit, first = await ask(service, kept(**params))
    steps = service.status().engines[0].steps_total
    again_hit, again = await ask(service, kept(**params))
    assert (first_hit, again_hit) == (False, True)
    assert service.status().engines[0].steps_total == steps
    told = replace(first, request_id=again.request_id, timings=again.timings)
    assert again == told
    assert again.timings.from_cache
    assert again.timings.num_output_tokens == first.usage.completion_tokens
    assert (cache.status().hits, cache.status().misses, cache.status().entries) == (1, 1, 1)


async def test_several_choices_are_kept_and_given_in_their_order(
    make_service: MakeService, cache: ResponseCache
) -> None:
    service = await make_service("llama", cache=cache)
    request = kept(temperature=1.2, seed=7, max_tokens=20)

    async def choices(n: int) -> tuple[list[bool], list[str]]:
        streams = await service.start_chat_choices(request, n)
        answers = await asyncio.gather(*(read(stream) for stream in streams))
        return [stream.from_cache for stream in streams], [answer.text_delta for answer in answers]

    first, again, more = await choices(3), await choices(3), await choices(4)
    assert (first[0], again[0], more[0]) == ([False] * 3, [True] * 3, [False] * 4)
    assert first[1] == again[1] == more[1][:3]
    assert len(set(more[1])) == 4


@pytest.mark.parametrize(
    "other",
    [
        {"max_tokens": 50},
        {"stop": ("a",)},
        {"temperature": 0.9, "seed": 2},
        {"text": "Hello "},
        {"model": "gpt2"},
        {"logprobs": 0},
        {"owner": "somebody else"},
    ],
)
async def test_another_question_is_a_miss(
    make_service: MakeService, cache: ResponseCache, other: dict[str, object]
) -> None:
    service = await make_service("llama", "gpt2", cache=cache)
    async for _progress in service.load("gpt2"):
        pass
    await ask(service, kept(temperature=0.9, seed=1))
    await ask(service, kept())
    assert not (await ask(service, kept(**other)))[0]  # type: ignore[arg-type]


async def test_null_absent_and_default_are_one_question_and_0_is_another(
    make_service: MakeService, cache: ResponseCache
) -> None:
    service = await make_service("llama", cache=cache)
    await ask(service, kept(temperature=None, seed=3))
    assert (await ask(service, kept(temperature=1.0, seed=3, top_p=1.0, top_k=0)))[0]
    assert not (await ask(service, kept(temperature=0.0, seed=3)))[0]


async def test_an_absent_max_tokens_is_the_same_as_the_room_that_is_left(
    make_service: MakeService, cache: ResponseCache
) -> None:
    service = await make_service("llama", cache=cache, limits=EngineLimits(max_model_len=64))
    stream = await service.start_completion(CompletionRequest((65,) * 40, params=SamplingParams(), cache_response=True))
    await read(stream)
    params = SamplingParams(temperature=0.0, max_tokens=None)
    _, whole = await ask(service, ChatRequest((Message("user", "x"),), params=params, cache_response=True))
    room = replace(params, max_tokens=64 - whole.usage.prompt_tokens)
    assert (await ask(service, ChatRequest((Message("user", "x"),), params=room, cache_response=True)))[0]


async def test_sampled_answers_without_a_seed_are_not_looked_up(
    make_service: MakeService, cache: ResponseCache
) -> None:
    service = await make_service("llama", cache=cache)
    assert [(await ask(service, kept(temperature=1.0)))[0] for _ in range(2)] == [False, False]
    assert (cache.status().hits, cache.status().misses, cache.status().entries) == (0, 0, 0)


async def test_a_request_may_pass_the_cache_by(make_service: MakeService, cache: ResponseCache) -> None:
    service = await make_service("llama", cache=cache)
    await ask(service, chat_request())
    assert cache.status().entries == 0
    await ask(service, kept())
    assert not (await ask(service, chat_request()))[0]


async def test_an_answer_that_was_left_early_is_made_whole_the_next_time(
    make_service: MakeService, cache: ResponseCache
) -> None:
    service = await make_service("llama", cache=cache)
    request = kept(max_tokens=200, ignore_eos=True)
    async with await service.start_chat(request) as stream:
        async for output in stream:
            if output.token_ids:
                break
    hit, whole = await ask(service, request)
    assert (hit, whole.usage.completion_tokens) == (False, 200)


async def test_an_answer_that_ran_out_of_time_or_was_cut_by_the_end_is_not_kept(
    make_service: MakeService, cache: ResponseCache
) -> None:
    late = await make_service("llama", cache=cache, stream_limits=StreamLimits(timeout=0.05))
    _, cut = await ask(late, kept(max_tokens=450, ignore_eos=True))
    assert cut.finish_reason is FinishReason.ERROR
    service = await make_service("llama", cache=cache)
    stream = await service.start_chat(kept(max_tokens=451, ignore_eos=True))
    ended, _ = await asyncio.gather(read(stream), service.shut_down())
    assert ended.finish_reason is FinishReason.ERROR
    assert cache.status().entries == 0


async def test_a_hit_needs_no_place_in_a_full_queue(make_service: MakeService, cache: ResponseCache) -> None:
    service = await make_service("llama", cache=cache, limits=EngineLimits(max_num_seqs=1, max_waiting=1))
    await ask(service, kept())
    streams = [await service.start_chat(chat_request(max_tokens=450, ignore_eos=True)) for _ in range(2)]
    assert (await ask(service, kept()))[0]
    for stream in streams:
        await stream.aclose()
