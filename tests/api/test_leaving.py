"""A client that leaves: its stream is closed at once, wherever the request was. Played at the ASGI border."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from fastapi import FastAPI

from myserve_ui.api.responses import ClientGoneError, while_connected
from tests.api.scripted_service import Script, ScriptedService

PATIENCE = 5.0
CHAT = "/v1/chat/completions"
CHAT_BODY = {"model": "tiny", "messages": [{"role": "user", "content": "Hi"}]}


class Visitor:
    """One HTTP request that stays open until `leave`."""

    def __init__(self, app: FastAPI, path: str, body: dict[str, Any]) -> None:
        self._body = json.dumps(body).encode()
        self._sent = False
        self._left = asyncio.Event()
        self.received: list[dict[str, Any]] = []
        headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
        scope = {"type": "http", "method": "POST", "path": path, "headers": headers, "query_string": b""}
        self.task = asyncio.create_task(app(scope, self._receive, self._send))

    async def _receive(self) -> dict[str, Any]:
        if not self._sent:
            self._sent = True
            return {"type": "http.request", "body": self._body, "more_body": False}
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: dict[str, Any]) -> None:
        self.received.append(message)

    async def leave(self) -> None:
        self._left.set()
        await asyncio.wait_for(self.task, PATIENCE)


async def until(condition: Callable[[], object]) -> None:
    """Wait for `condition`; fails after PATIENCE seconds."""
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.001)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (CHAT, CHAT_BODY),
        (CHAT, {**CHAT_BODY, "stream": True}),
        ("/v1/completions", {"model": "tiny", "prompt": "Hi"}),
        ("/v1/completions", {"model": "tiny", "prompt": "Hi", "stream": True}),
        ("/generate", {"prompt": "Hi"}),
        ("/stream", {"prompt": "Hi"}),
    ],
)
@pytest.mark.parametrize("deltas", [[], ["Hel", "lo"]], ids=["in prefill", "in decode"])
async def test_leaving_closes_the_stream(
    app_factory: Callable[..., FastAPI], service: ScriptedService, path: str, body: dict[str, Any], deltas: list[str]
) -> None:
    service.script = Script(deltas=deltas, hangs=True)
    visitor = Visitor(app_factory(), path, body)
    await until(lambda: service.open_streams == 1)
    await visitor.leave()
    assert service.open_streams == 0
    assert not any(message.get("body") == b"data: [DONE]\n\n" for message in visitor.received)


@pytest.mark.parametrize("stream", [False, True])
async def test_leaving_before_the_start_cancels_the_start(
    app_factory: Callable[..., FastAPI], service: ScriptedService, stream: bool
) -> None:
    service.script = Script(hangs_before_start=True)
    visitor = Visitor(app_factory(), CHAT, {**CHAT_BODY, "stream": stream})
    await until(lambda: service.requests)
    await visitor.leave()
    assert service.cancelled_starts == 1
    assert service.open_streams == 0


async def test_a_server_that_cancels_the_request_closes_its_stream(
    app_factory: Callable[..., FastAPI], service: ScriptedService
) -> None:
    service.script = Script(hangs=True)
    visitor = Visitor(app_factory(), CHAT, {**CHAT_BODY, "stream": True})
    await until(lambda: service.open_streams == 1)
    visitor.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await visitor.task
    assert service.open_streams == 0


async def test_work_that_ends_first_gives_its_result() -> None:
    async def stay() -> dict[str, str]:
        await asyncio.Event().wait()
        raise AssertionError

    async def work() -> int:
        return 7

    assert await while_connected(stay, work()) == 7


async def test_work_is_over_when_the_client_is_gone() -> None:
    ended = []

    async def leave() -> dict[str, str]:
        await asyncio.sleep(0)
        return {"type": "http.disconnect"}

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append(True)

    with pytest.raises(ClientGoneError):
        await while_connected(leave, work())
    assert ended == [True]
