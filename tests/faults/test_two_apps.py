"""Two apps in one process share nothing: not the queue, not the caches, not the numbers, not the keys."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx2
import pytest
from fastapi import FastAPI
from prometheus_client import generate_latest

from myserve_ui.core.model_info import LoadState
from myserve_ui.server.composition import create_app
from myserve_ui.settings import Settings
from tests.faults.injection import until
from tests.faults.visitor import CHAT

BODY = {"model": "echo", "messages": [{"role": "user", "content": "Hello"}], "temperature": 0, "max_tokens": 3}
KEY = {"authorization": "Bearer secret"}


@pytest.fixture
async def apps() -> AsyncIterator[tuple[FastAPI, FastAPI]]:
    small = create_app(Settings.model_validate({"force_echo": True, "api_key": "secret", "max_model_len": 64}))
    large = create_app(Settings(force_echo=True, max_model_len=512))
    async with small.router.lifespan_context(small), large.router.lifespan_context(large):
        await asyncio.gather(*(app.state.page.wait_open() for app in (small, large)))
        for app in (small, large):
            await until(lambda app=app: app.state.service.model("").state is LoadState.READY)
        yield small, large


def connect(app: FastAPI) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://127.0.0.1")


async def test_two_apps_side_by_side_share_nothing(apps: tuple[FastAPI, FastAPI]) -> None:
    small, large = apps
    async with connect(small) as locked, connect(large) as open_door:
        assert (await locked.post(CHAT, json=BODY)).status_code == 401
        assert (await open_door.post(CHAT, json=BODY)).status_code == 200
        assert large.state.service.status().engines[0].generation_tokens_total == 3
        assert small.state.service.status().engines[0].generation_tokens_total == 0
        assert small.state.service.status().response_cache.entries == 0
        assert (await locked.post(CHAT, json=BODY, headers=KEY)).status_code == 200
        long = {**BODY, "max_tokens": 400}
        assert (await locked.post(CHAT, json=long, headers=KEY)).status_code == 400
        assert (await open_door.post(CHAT, json=long)).status_code == 200
    numbers = [generate_latest(app.state.service.metrics.registry).decode() for app in apps]
    assert ["vllm:request_success_total" in text for text in numbers] == [True, True]
    assert numbers[0] != numbers[1]


async def test_one_app_that_drains_leaves_the_other_alone(apps: tuple[FastAPI, FastAPI]) -> None:
    small, large = apps
    small.state.service.drain()
    async with connect(small) as locked, connect(large) as open_door:
        assert (await locked.get("/health")).status_code == 503
        assert (await open_door.get("/health")).status_code == 200
        assert (await open_door.post(CHAT, json=BODY)).status_code == 200
