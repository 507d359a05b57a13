"""Clients that leave or do not read, over a real socket: their rows are free at once and nobody else notices."""

from __future__ import annotations

import asyncio
import gc
import json
import random

import httpx2
import pytest

from myserve_ui.core.outputs import FinishReason, join_outputs
from myserve_ui.serving.chat_service import ChatService
from myserve_ui.serving.engine_builder import EngineLimits
from myserve_ui.serving.request_stream import StreamLimits
from tests.api.live import serve_door
from tests.conftest import MakeService, chat_request
from tests.faults.injection import PATIENCE, engine_of, inject, is_idle, until
from tests.faults.visitor import CHAT, Visitor
from tests.support.fault_injection import Fault, FaultKind

LONG = 400
SLOW_STEPS = Fault(FaultKind.SLEEP, seconds=0.01)


async def answer(service: ChatService, text: str = "Hello", **params: object) -> str:
    async with await service.start_chat(chat_request(text, **params)) as stream:
        whole = join_outputs([output async for output in stream])
    assert whole.finish_reason in (FinishReason.STOP, FinishReason.LENGTH)
    return whole.text_delta


@pytest.fixture
async def service(make_service: MakeService) -> ChatService:
    return await make_service("llama", limits=EngineLimits(max_num_seqs=2, max_num_batched_tokens=16, debug=True))


@pytest.mark.parametrize("stream", [True, False])
async def test_leaving_in_decode_frees_the_row_within_a_step(service: ChatService, stream: bool) -> None:
    async with serve_door(service) as url:
        runner = inject(service, SLOW_STEPS)
        visitor = await Visitor.ask(url, model="llama", max_tokens=LONG, ignore_eos=True, stream=stream)
        await until(lambda: engine_of(service).generation_tokens_total > 3)
        before = runner.steps
        visitor.vanish()
        await until(lambda: is_idle(service))
        # the step that was running, and those of the few milliseconds that a socket needs to tell
        assert runner.steps - before < 20


@pytest.mark.parametrize("stream", [True, False])
async def test_leaving_in_prefill_ends_the_prefill(service: ChatService, stream: bool) -> None:
    async with serve_door(service) as url:
        runner = inject(service, SLOW_STEPS)
        messages = [{"role": "user", "content": "x" * 400}]
        visitor = await Visitor.ask(url, model="llama", messages=messages, max_tokens=5, stream=stream)
        await until(lambda: runner.steps >= 2)
        visitor.vanish()
        await until(lambda: is_idle(service))
        assert runner.steps < 400 // 16
        assert engine_of(service).generation_tokens_total == 0


@pytest.mark.parametrize("stream", [True, False])
async def test_leaving_the_queue_changes_nothing_for_those_who_run(service: ChatService, stream: bool) -> None:
    alone = await answer(service, "stay", max_tokens=60, ignore_eos=True)
    async with serve_door(service) as url:
        inject(service, SLOW_STEPS)
        staying = [asyncio.create_task(answer(service, "stay", max_tokens=60, ignore_eos=True)) for _ in range(2)]
        await until(lambda: engine_of(service).num_running == 2)
        visitor = await Visitor.ask(url, model="llama", max_tokens=LONG, ignore_eos=True, stream=stream)
        await until(lambda: engine_of(service).num_waiting == 1)
        visitor.vanish()
        await until(lambda: engine_of(service).num_waiting == 0)
        assert engine_of(service).num_running == 2
        assert await asyncio.gather(*staying) == [alone, alone]


async def test_a_storm_of_200_who_leave_leaves_nothing_behind(make_service: MakeService) -> None:
    service = await make_service("llama", limits=EngineLimits(max_num_seqs=8, debug=True, max_waiting=300))
    expected = await answer(service, "after", max_tokens=20)
    moods = random.Random(7)

    async def come_and_go(url: str) -> None:
        mood = moods.random()
        visitor = await Visitor.ask(url, model="llama", max_tokens=LONG, ignore_eos=True, stream=mood < 0.6)
        if mood < 0.2:
            await visitor.read_until(b"\n\n")
        elif mood < 0.8:
            await asyncio.sleep(mood / 5)
        visitor.vanish()

    async with serve_door(service) as url, httpx2.AsyncClient(base_url=url, timeout=PATIENCE) as client:
        await client.get("/health")
        tasks = len(asyncio.all_tasks())
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*(come_and_go(url) for _ in range(200)))
        await until(lambda: is_idle(service) and len(asyncio.all_tasks()) <= tasks)
        assert not service._pool.engines()[0].worker._streams
        body = {"model": "llama", "messages": [{"role": "user", "content": "after"}], "temperature": 0}
        reply = await client.post(CHAT, json={**body, "max_tokens": 20})
        assert reply.json()["choices"][0]["message"]["content"] == expected
        assert (await client.get("/health")).json()["status"] == "ok"


async def test_a_silent_reader_holds_up_nobody_and_finds_a_short_whole_stream(make_service: MakeService) -> None:
    """What does not fit into the socket's buffers is merged: far fewer events than tokens wait for it."""
    service, tokens, text = await make_service("echo"), 4000, "word " * 780
    expected = await answer(service, "other", max_tokens=30)
    async with serve_door(service, send_buffer=4096) as url:
        messages = [{"role": "user", "content": text}]
        fields = {"model": "echo", "messages": messages, "max_tokens": tokens, "stream": True}
        silent = await Visitor.ask(url, buffer=4096, **fields)
        await until(lambda: engine_of(service).num_running == 1)
        assert await answer(service, "other", max_tokens=30) == expected
        await until(lambda: is_idle(service))
        events = await silent.read_events()
        silent.vanish()
    deltas = [json.loads(event[6:])["choices"][0]["delta"].get("content", "") for event in events[:-1]]
    assert text[:3800] in "".join(deltas)
    assert len(events) < tokens / 2


async def test_what_waits_for_a_silent_reader_is_one_output(service: ChatService) -> None:
    async with await service.start_chat(chat_request(max_tokens=LONG, ignore_eos=True)) as stream:
        await until(lambda: is_idle(service) and engine_of(service).generation_tokens_total >= LONG)
        await asyncio.sleep(0)
        outputs = [output async for output in stream]
    assert len(outputs) == 1
    assert outputs[0].usage.completion_tokens == len(outputs[0].token_ids) == LONG


async def test_a_request_that_nobody_reads_ends_in_time_too(make_service: MakeService) -> None:
    service = await make_service("llama", stream_limits=StreamLimits(timeout=0.1))
    inject(service, SLOW_STEPS)
    stream = await service.start_chat(chat_request(max_tokens=LONG, ignore_eos=True))
    await until(lambda: engine_of(service).num_running == 1)
    await until(lambda: is_idle(service))
    assert engine_of(service).generation_tokens_total < LONG
    outputs = [output async for output in stream]
    assert outputs[-1].finish_reason is FinishReason.ERROR


async def test_streams_that_ended_leave_no_timer_and_no_reference(service: ChatService) -> None:
    for number in range(5):
        await answer(service, str(number), max_tokens=2)
    left = await service.start_chat(chat_request(max_tokens=LONG))
    await left.aclose()
    del left
    await until(lambda: is_idle(service))
    gc.collect()
    kinds = [type(thing).__name__ for thing in gc.get_objects()]
    assert kinds.count("RequestStream") == 0


@pytest.mark.parametrize(
    "sent",
    [
        b'Content-Length: 500\r\n\r\n{"model": "m", "mess',
        b'Transfer-Encoding: chunked\r\n\r\n5\r\n{"mod',
        b'Transfer-Encoding: chunked\r\n\r\nnot-a-size\r\n{"mod',
    ],
    ids=["in the body", "in a chunk", "with a chunk of no size"],
)
async def test_leaving_in_the_middle_of_a_request_is_no_error_of_the_server(
    service: ChatService, sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with serve_door(service) as url:
        host, port = url.removeprefix("http://").split(":")
        _, writer = await asyncio.open_connection(host, int(port))
        head = f"POST {CHAT} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
        writer.write(head.encode() + sent)
        await writer.drain()
        await asyncio.sleep(0.1)
        writer.close()
        await writer.wait_closed()
        await asyncio.sleep(0.1)
        assert await answer(service, max_tokens=2, ignore_eos=True)
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []
