"""Schemas that would end the process, over a real socket: a 400 for themselves, and nobody else notices."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator

import httpx2
import pytest

from myserve_ui.core.schemas.structured_output import StructuredOutput
from myserve_ui.errors import InvalidRequestError
from myserve_ui.serving.chat_service import ChatService
from myserve_ui.serving.grammars import workshop as grammar_workshop
from tests.api.live import serve_door
from tests.conftest import MakeService, chat_request
from tests.faults.injection import PATIENCE, inject, is_idle, until
from tests.faults.visitor import CHAT, Visitor
from tests.support.fault_injection import Fault, FaultKind
from tests.support.tool_models import load_with_tools

MESSAGES = [{"role": "user", "content": "Hello"}]
CRASHING = '%llguidance {}\nstart: %json {"const": -9223372036854775808}'
"""What the library dies of: a negation that overflows, and a recursion that does not end."""
ENDLESS = "%llguidance {}\nstart: /" + "(" * 3 + "(a|b)*a" + "(a|b){60})" * 3 + "/"
NUMBERS = [
    {"const": -(2**63)},
    {"type": "integer", "minimum": -1e20, "maximum": -1e19},
    {"enum": [1234567890123456789]},
    {"type": "integer", "minimum": 2**53 + 1, "maximum": 2**53 + 1},
    {"type": "integer", "minimum": 10**30},
]


@pytest.fixture
async def service(make_service: MakeService) -> ChatService:
    return await make_service("hermes", load=load_with_tools)


@pytest.fixture
async def client(service: ChatService) -> AsyncIterator[httpx2.AsyncClient]:
    async with serve_door(service) as url, httpx2.AsyncClient(base_url=url, timeout=PATIENCE) as client:
        yield client


def form(schema: object) -> dict[str, object]:
    return {"type": "json_schema", "json_schema": {"name": "f", "schema": schema}}


async def ask(client: httpx2.AsyncClient, **fields: object) -> httpx2.Response:
    body = {"model": "hermes", "messages": MESSAGES, "temperature": 0, "max_tokens": 40, **fields}
    return await client.post(CHAT, json=body)


async def refuse(client: httpx2.AsyncClient, **fields: object) -> str:
    reply = await ask(client, **fields)
    assert (reply.status_code, reply.json()["error"]["type"]) == (400, "invalid_request_error")
    message = reply.json()["error"]["message"]
    assert message.startswith("The schema cannot be honoured: ") and "Some(" not in message
    return str(message)


def write(monkeypatch: pytest.MonkeyPatch, *texts: str) -> None:
    """Have the next grammars written as `texts`, as if a schema had slipped through what checks it."""
    pending, real = list(texts), grammar_workshop.write_grammar
    monkeypatch.setattr(grammar_workshop, "write_grammar", lambda form: pending.pop(0) if pending else real(form))


async def test_numbers_that_end_the_library_end_only_their_own_request(
    client: httpx2.AsyncClient, service: ChatService
) -> None:
    runner = inject(service, Fault(FaultKind.SLEEP, seconds=0.005))
    neighbour = asyncio.create_task(ask(client, max_tokens=200, ignore_eos=True, stream=True))
    await until(lambda: runner.steps > 3)
    for schema in NUMBERS:
        await refuse(client, response_format=form(schema))
        tool = {"type": "function", "function": {"name": "f", "parameters": {"properties": {"a": schema}}}}
        await refuse(client, tools=[tool], tool_choice="required")
    runner.faults.clear()
    events = [line for line in (await neighbour).text.splitlines() if line.startswith("data: ")]
    assert events[-1] == "data: [DONE]"
    assert json.loads(events[-2][6:])["choices"][0]["finish_reason"] == "length"
    assert (await client.get("/health")).status_code == 200


async def test_what_float64_misses_is_still_answered_right(client: httpx2.AsyncClient) -> None:
    tenth = {"type": "number", "multipleOf": 0.1, "minimum": 0.3, "maximum": 0.3}
    for schema, text in [(tenth, "0.3"), ({"const": 2**53}, str(2**53)), ({"const": 1.0}, "1")]:
        reply = await ask(client, response_format=form(schema))
        assert reply.json()["choices"][0]["message"]["content"] == text


async def test_a_crash_while_a_grammar_is_made_is_a_400_and_the_next_one_is_made(
    client: httpx2.AsyncClient,
    service: ChatService,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    write(monkeypatch, CRASHING)
    assert "end a program" in await refuse(client, response_format=form({"const": 1}))
    assert [record.levelname for record in caplog.records if "grammar worker" in record.message] == ["ERROR"]
    reply = await ask(client, response_format=form({"const": 1}))
    assert reply.json()["choices"][0]["message"]["content"] == "1"
    assert (await client.get("/health")).status_code == 200


async def test_a_worker_killed_in_the_middle_of_a_grammar_is_a_400_and_is_replaced(
    client: httpx2.AsyncClient, service: ChatService
) -> None:
    await ask(client, response_format=form({"const": 0}))
    first = service.grammars.process.pid
    assert first is not None
    os.kill(first, signal.SIGSTOP)  # it stays in the middle
    asked = asyncio.create_task(refuse(client, response_format=form({"const": 1})))
    await until(service.grammars._turn.locked)
    assert (await ask(client)).status_code == 200
    os.kill(first, signal.SIGKILL)
    assert "end a program" in await asked
    assert (await ask(client, response_format=form({"const": 1}))).status_code == 200
    assert service.grammars.process.pid not in (None, first)


async def test_a_worker_killed_between_two_grammars_is_not_noticed(
    client: httpx2.AsyncClient, service: ChatService
) -> None:
    await ask(client, response_format=form({"const": 0}))
    process = service.grammars.process
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    await until(lambda: process.pid is None)
    assert (await ask(client, response_format=form({"const": 1}))).status_code == 200


async def test_a_grammar_that_takes_too_long_is_given_up(
    make_service: MakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = await make_service("llama")
    service.grammars.process._limits = grammar_workshop.TrialLimits(seconds=0.05)
    await service.grammars.process._started()
    first = service.grammars.process.pid
    assert first is not None
    os.kill(first, signal.SIGSTOP)
    with pytest.raises(InvalidRequestError, match=r"takes more than 0.05 s"):
        await service.start_chat(chat_request(structured_output=StructuredOutput.json_object()))
    assert service.grammars.process.pid is None


async def test_clients_that_leave_a_slow_grammar_leave_one_turn_and_no_plain_chat_waits(
    client: httpx2.AsyncClient, service: ChatService
) -> None:
    """One is being made, and stays so for as long as the worker is stopped; the others wait for their turn."""
    await ask(client, response_format=form({"const": 0}))
    process = service.grammars.process
    first = process.pid
    assert first is not None
    os.kill(first, signal.SIGSTOP)
    url = str(client.base_url)
    visitors = [
        await Visitor.ask(url, model="hermes", response_format=form({"const": n}), max_tokens=5) for n in range(1, 9)
    ]
    await until(lambda: len(service.grammars._work) == 8)
    assert (await ask(client)).status_code == 200
    for visitor in visitors:
        visitor.vanish()
    await until(lambda: not service.grammars._work and not service.grammars._turn.locked())
    assert process.pid is None, "the grammar that nobody waits for any more is still being made"
    reply = await ask(client, response_format=form({"const": 9}))
    assert reply.json()["choices"][0]["message"]["content"] == "9"
    await until(lambda: is_idle(service))
