"""The API door over a scripted service, in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import httpx2
import openai
import pytest
import pytest_asyncio
from fastapi import FastAPI

from myserve_ui.api.door import add_api
from myserve_ui.evaluation.comparisons import Comparisons
from myserve_ui.settings import Settings
from tests.api.real_door import RealDoor, open_door
from tests.api.scripted_service import ScriptedService

BASE_URL = "http://127.0.0.1"
ClientFactory = Callable[..., httpx2.AsyncClient]


@pytest.fixture
def service() -> ScriptedService:
    return ScriptedService()


@pytest.fixture
def app_factory(service: ScriptedService) -> Callable[..., FastAPI]:
    """Makes the door's app from settings given by name."""

    def make(**settings: object) -> FastAPI:
        app = FastAPI(openapi_url=None, redirect_slashes=False)
        add_api(
            app,
            service,
            Settings.model_validate(settings),
            comparisons=Comparisons(service, None),  # type: ignore[arg-type]
            is_browser_path=lambda path: path == "/",
        )
        return app

    return make


@pytest_asyncio.fixture
async def client(app_factory: Callable[..., FastAPI]) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app_factory()), base_url=BASE_URL) as client:
        yield client


@pytest_asyncio.fixture
async def sdk(client: httpx2.AsyncClient) -> openai.AsyncOpenAI:
    """The official client over the same app."""
    return openai.AsyncOpenAI(api_key="none", base_url=f"{BASE_URL}/v1", http_client=client, max_retries=0)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def door() -> AsyncIterator[RealDoor]:
    """Real engines behind a real socket: the models "llama" (tiny, seeded) and "echo". One for a whole module."""
    async with open_door("llama", "echo") as door:
        yield door
