"""The door over a tiny seeded model ("llama") and over the echo, on a real socket, asked by both kinds of client."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx2
import openai

from myserve_ui.core.model_info import EngineStatus
from myserve_ui.serving.chat_service import ChatService
from myserve_ui.serving.engine_builder import EngineLimits
from myserve_ui.serving.engine_pool import EnginePool
from tests.api.live import serve_door
from tests.conftest import catalog_of, load_tiny

PATIENCE = 20.0
CHAT, TEXT = "/v1/chat/completions", "/v1/completions"


@dataclass(frozen=True)
class RealDoor:
    service: ChatService
    http: httpx2.AsyncClient
    sdk: openai.AsyncOpenAI

    async def ask(self, path: str, **body: Any) -> dict[str, Any]:
        """The JSON of an answer that must succeed; greedy unless told otherwise."""
        response = await self.http.post(path, json={"temperature": 0, **body})
        assert response.status_code == 200, response.text
        return response.json()

    async def refuse(self, path: str, **body: Any) -> dict[str, Any]:
        """The error of an answer that must be a 400; the next request must succeed."""
        response = await self.http.post(path, json=body)
        assert response.status_code == 400, response.text
        await self.ask(TEXT, model="llama", prompt="ok", max_tokens=1)
        return response.json()["error"]

    async def chunks(self, path: str, **body: Any) -> list[dict[str, Any]]:
        """The chunks of a streamed answer that must succeed, without [DONE]."""
        response = await self.http.post(path, json={"temperature": 0, **body, "stream": True})
        assert response.status_code == 200, response.text
        events = [line.removeprefix("data: ") for line in response.text.splitlines() if line.startswith("data: ")]
        assert events[-1] == "[DONE]"
        return [json.loads(event) for event in events[:-1]]

    def engine(self, model: str) -> EngineStatus:
        return next(engine for engine in self.service.status().engines if engine.model == model)


@asynccontextmanager
async def open_door(*models: str) -> AsyncIterator[RealDoor]:
    """A service with these models loaded, behind a door; shut down at the end."""
    service = ChatService(EnginePool(catalog_of(*models), load_tiny, EngineLimits(debug=True)), grace=0.0)
    for model in models:
        async for _progress in service.load(model):
            pass
    async with (
        serve_door(service) as url,
        httpx2.AsyncClient(base_url=url, timeout=PATIENCE) as http,
        openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as sdk,
    ):
        yield RealDoor(service, http, sdk)
    await service.shut_down()


async def until(condition: Callable[[], object]) -> None:
    """Wait for `condition`; fails after PATIENCE seconds."""
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.005)


def user(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def joined(chunks: list[dict[str, Any]], index: int = 0) -> str:
    """The text of one choice of a stream, chat or completion."""
    choices = [choice for chunk in chunks for choice in chunk["choices"] if choice["index"] == index]
    return "".join(choice.get("text") or choice.get("delta", {}).get("content") or "" for choice in choices)
