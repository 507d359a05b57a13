"""What a client sees when the engine fails under it: a plain status or one error event, and then everything is well."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import httpx2
import pytest

from myserve_ui.core.model_info import LoadState
from myserve_ui.engine.sequence import EngineRequest
from myserve_ui.errors import ModelLoadError
from myserve_ui.models.catalog import CatalogEntry
from myserve_ui.models.loaded_model import LoadedModel
from myserve_ui.serving.chat_service import ChatService
from myserve_ui.serving.engine_builder import EngineLimits
from myserve_ui.serving.engine_pool import EnginePool
from tests.api.live import serve_door
from tests.conftest import MakeService, catalog_of, chat_request, load_tiny
from tests.faults.injection import PATIENCE, engine_of, inject, until
from tests.faults.visitor import CHAT
from tests.support.fault_injection import Fault, FaultKind, step_is

BODY = {"model": "llama", "messages": [{"role": "user", "content": "Hello"}], "temperature": 0, "max_tokens": 30}


@pytest.fixture
async def service(make_service: MakeService) -> ChatService:
    return await make_service("llama")


@pytest.fixture
async def client(service: ChatService) -> AsyncIterator[httpx2.AsyncClient]:
    async with serve_door(service) as url, httpx2.AsyncClient(base_url=url, timeout=PATIENCE) as client:
        yield client


async def ask(client: httpx2.AsyncClient, **fields: object) -> httpx2.Response:
    return await client.post(CHAT, json={**BODY, **fields})


async def text_of(client: httpx2.AsyncClient) -> str:
    reply = await ask(client)
    assert reply.status_code == 200
    return str(reply.json()["choices"][0]["message"]["content"])


async def test_a_failed_step_is_a_500_and_the_next_request_is_answered(
    client: httpx2.AsyncClient, service: ChatService
) -> None:
    expected = await text_of(client)
    inject(service, Fault(FaultKind.RAISE, step_is(4)))
    reply = await ask(client)
    assert (reply.status_code, reply.json()["error"]["type"]) == (500, "server_error")
    assert "injected" not in reply.text
    assert await text_of(client) == expected
    assert (await client.get("/health")).status_code == 200


@pytest.mark.parametrize("kind", [FaultKind.RAISE, FaultKind.NAN])
async def test_a_failure_in_the_middle_of_a_stream_is_one_error_event_and_no_end(
    client: httpx2.AsyncClient, service: ChatService, kind: FaultKind
) -> None:
    expected = await text_of(client)
    inject(service, Fault(kind, step_is(8)))
    events = [event for event in (await ask(client, stream=True)).text.split("\n\n") if event.startswith("data: ")]
    parsed = [json.loads(event.removeprefix("data: ")) for event in events]
    assert [set(event) for event in parsed if "choices" not in event] == [{"error"}]
    assert set(parsed[-1]["error"]) == {"message", "type", "param", "code"}
    assert not any(choice["finish_reason"] for event in parsed[:-1] for choice in event["choices"])
    text = "".join(event["choices"][0]["delta"].get("content", "") for event in parsed[:-1])
    assert expected.startswith(text) and text
    assert await text_of(client) == expected


async def test_a_lack_of_memory_is_not_seen_from_outside(client: httpx2.AsyncClient, service: ChatService) -> None:
    expected = await text_of(client)
    inject(service, Fault(FaultKind.OUT_OF_MEMORY, lambda _step, batch: len(batch.chunks) > 2))
    replies = await asyncio.gather(*(text_of(client) for _ in range(5)))
    assert replies == [expected] * 5


async def test_the_fault_of_one_does_not_touch_the_others(client: httpx2.AsyncClient, service: ChatService) -> None:
    expected = await text_of(client)
    runner = inject(service, Fault(FaultKind.SLEEP, seconds=0.005))
    stream = await service.start_chat(chat_request(max_tokens=300, ignore_eos=True))
    others = [asyncio.create_task(text_of(client)) for _ in range(3)]
    await until(lambda: engine_of(service).num_running == 4)
    ill = stream.request_id
    runner.faults.append(Fault(FaultKind.NAN, rows=lambda chunk: chunk.sequence.request_id == ill))
    assert [output async for output in stream][-1].error
    assert await asyncio.gather(*others) == [expected] * 3


async def test_a_dead_engine_answers_503_everywhere_at_once(client: httpx2.AsyncClient, service: ChatService) -> None:
    inject(service, Fault(FaultKind.SLEEP, seconds=0.005))
    waiting = [asyncio.create_task(ask(client, max_tokens=400, ignore_eos=True)) for _ in range(20)]
    await until(lambda: engine_of(service).num_waiting > 0)
    engine = service._pool.engines()[0].worker._engine

    def die() -> None:
        raise SystemExit

    engine.step = die
    async with asyncio.timeout(2.0):
        replies = await asyncio.gather(*waiting)
    assert {reply.status_code for reply in replies} == {503}
    assert (await client.get("/health")).status_code == 503
    refused = await ask(client)
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "engine_dead")


async def test_a_request_that_the_engine_cannot_take_in_fails_alone(
    client: httpx2.AsyncClient, service: ChatService
) -> None:
    expected = await text_of(client)
    engine = service._pool.engines()[0].worker._engine
    take_in = engine.add

    def refuse_once(request: EngineRequest) -> None:
        engine.add = take_in
        raise ValueError(request.request_id)

    engine.add = refuse_once
    assert (await ask(client)).status_code == 500
    assert await text_of(client) == expected


async def test_a_load_that_fails_is_told_and_may_be_tried_again() -> None:
    healed = False

    def load(entry: CatalogEntry, _on_progress: object) -> LoadedModel:
        if not healed:
            raise ModelLoadError("The weights are not where they should be.")
        return load_tiny(entry)

    service = ChatService(EnginePool(catalog_of("llama"), load, EngineLimits(debug=True)), grace=0.0)
    async with serve_door(service) as url, httpx2.AsyncClient(base_url=url, timeout=PATIENCE) as client:
        refused = await ask(client)
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "model_loading")
        await until(lambda: service.model("").state is LoadState.FAILED)
        health = await client.get("/health")
        assert (health.status_code, health.json()["error"]["message"]) == (
            503,
            "The weights are not where they should be.",
        )
        assert (await client.get("/live")).status_code == 200
        healed = True
        assert (await ask(client)).status_code == 503
        await until(lambda: service.model("").state is LoadState.READY)
        assert await text_of(client)
        assert (await client.get("/health")).status_code == 200
    await service.shut_down()
