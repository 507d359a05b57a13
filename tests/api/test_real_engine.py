"""The door over real engines and a real socket: equal texts, and clients that leave in the middle."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import httpx2
import openai
import pytest

from myserve_ui.core.model_info import EngineStatus
from myserve_ui.serving.chat_service import ChatService
from myserve_ui.serving.engine_builder import EngineLimits
from tests.api.live import serve_door
from tests.conftest import MakeService

PATIENCE = 20.0
LONG = 8000
CHAT = "/v1/chat/completions"


def chat(model: str, text: str = "Hello", **fields: object) -> dict[str, object]:
    return {"model": model, "messages": [{"role": "user", "content": text}], "temperature": 0, **fields}


def endless(**fields: object) -> dict[str, object]:
    """A request that takes seconds: nobody would wait for its end."""
    return chat("echo", ignore_eos=True, max_tokens=LONG, **fields)


@pytest.fixture
async def tiny(make_service: MakeService) -> AsyncIterator[openai.AsyncOpenAI]:
    async with (
        serve_door(await make_service("llama")) as url,
        openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="x") as sdk,
    ):
        yield sdk


@pytest.fixture
async def one_seat(make_service: MakeService) -> ChatService:
    """An echo that answers one request at a time."""
    return await make_service("echo", limits=EngineLimits(max_num_seqs=1))


def engine(service: ChatService) -> EngineStatus:
    return service.status().engines[0]


async def until(condition: Callable[[], object]) -> None:
    """Wait for `condition`; fails after PATIENCE seconds."""
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.005)


async def test_a_streamed_answer_equals_the_whole_one(tiny: openai.AsyncOpenAI) -> None:
    request = chat("llama", "日本 🙂 <|im_end|>", max_tokens=24)
    whole = await tiny.chat.completions.create(**request)
    stream = await tiny.chat.completions.create(**request, stream=True, stream_options={"include_usage": True})
    chunks = [chunk async for chunk in stream]
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == whole.choices[0].message.content
    assert chunks[-2].choices[0].finish_reason == whole.choices[0].finish_reason
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens
    assert chunks[-1].usage.prompt_tokens == whole.usage.prompt_tokens


async def test_two_streams_at_once_equal_their_solo_texts(tiny: openai.AsyncOpenAI) -> None:
    async def ask(text: str) -> str:
        stream = await tiny.chat.completions.create(**chat("llama", text, max_tokens=32), stream=True)
        return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

    questions = ["One", "A much longer question than the other one, to differ in length"]
    alone = [await ask(question) for question in questions]
    assert await asyncio.gather(*map(ask, questions)) == alone
    assert all(alone)


async def test_a_seed_repeats_and_the_length_limit_is_told(tiny: openai.AsyncOpenAI) -> None:
    request = {**chat("llama", max_tokens=8, seed=7, ignore_eos=True), "temperature": 1.5}
    extra = {"ignore_eos": request.pop("ignore_eos")}
    first, second = [await tiny.chat.completions.create(**request, extra_body=extra) for _ in range(2)]
    assert first.choices[0].message.content == second.choices[0].message.content
    assert first.choices[0].finish_reason == "length"
    assert first.usage.completion_tokens == 8


async def test_a_prompt_over_the_context_is_a_400_with_both_numbers(tiny: openai.AsyncOpenAI) -> None:
    context = (await tiny.models.retrieve("llama")).model_dump()["context_length"]
    for stream in (False, True):
        with pytest.raises(openai.BadRequestError, match=str(context)) as refused:
            await tiny.chat.completions.create(**chat("llama", "x" * (context + 1)), stream=stream)
        assert refused.value.code == "context_length_exceeded"
    assert (await tiny.chat.completions.create(**chat("llama", max_tokens=1))).usage.completion_tokens == 1


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_leaves_frees_its_row(one_seat: ChatService, stream: bool) -> None:
    async with serve_door(one_seat) as url:
        async with httpx2.AsyncClient(base_url=url) as client:
            asking = asyncio.create_task(client.post(CHAT, json=endless(stream=stream)))
            await until(lambda: engine(one_seat).generation_tokens_total > 0)
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
        await until(lambda: engine(one_seat).num_running == 0)
        assert engine(one_seat).generation_tokens_total < LONG


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_leaves_the_queue_is_forgotten(one_seat: ChatService, stream: bool) -> None:
    async with serve_door(one_seat) as url, httpx2.AsyncClient(base_url=url) as client:
        running = asyncio.create_task(client.post(CHAT, json=endless(stream=True)))
        await until(lambda: engine(one_seat).num_running == 1)
        waiting = asyncio.create_task(client.post(CHAT, json=endless(stream=stream)))
        await until(lambda: engine(one_seat).num_waiting == 1)
        waiting.cancel()
        await until(lambda: engine(one_seat).num_waiting == 0)
        assert engine(one_seat).num_running == 1
        running.cancel()
        await asyncio.gather(running, waiting, return_exceptions=True)
        await until(lambda: engine(one_seat).num_running == 0)
        assert engine(one_seat).generation_tokens_total < LONG


async def test_draining_refuses_new_requests_and_finishes_running_ones(make_service: MakeService) -> None:
    service = await make_service("echo")
    async with serve_door(service) as url, httpx2.AsyncClient(base_url=url, timeout=PATIENCE) as client:
        running = asyncio.create_task(
            client.post(CHAT, json=chat("echo", stream=True, ignore_eos=True, max_tokens=500))
        )
        await until(lambda: engine(service).num_running == 1)
        service.drain()
        refused = await client.post(CHAT, json=chat("echo"))
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "shutting_down")
        assert (await client.get("/health")).json()["error"]["code"] == "shutting_down"
        assert (await running).text.endswith("data: [DONE]\n\n")


async def test_a_full_queue_is_429(make_service: MakeService) -> None:
    service = await make_service("echo", limits=EngineLimits(max_num_seqs=1, max_waiting=1))
    async with serve_door(service) as url, httpx2.AsyncClient(base_url=url) as client:
        asking = [asyncio.create_task(client.post(CHAT, json=endless(stream=True))) for _ in range(2)]
        await until(lambda: engine(service).num_running == 1 and engine(service).num_waiting == 1)
        response = await client.post(CHAT, json=endless(stream=True))
        assert (response.status_code, response.json()["error"]["code"]) == (429, "overloaded")
        assert int(response.headers["retry-after"]) > 0
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        await until(lambda: engine(service).num_running == 0)
        assert (await client.post(CHAT, json=chat("echo", max_tokens=1))).status_code == 200
