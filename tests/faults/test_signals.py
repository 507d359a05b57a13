"""SIGTERM while nothing runs, and while something runs for longer than the grace time."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path

import httpx2

from tests.api.test_launcher import CHAT, ENDLESS, PATIENCE, running_app


async def test_an_idle_app_ends_with_0_at_once(tmp_path: Path) -> None:
    async with running_app(tmp_path) as (process, url):
        async with httpx2.AsyncClient(base_url=url, timeout=PATIENCE) as client:
            assert (await client.get("/health")).status_code == 200
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), PATIENCE) == 0


async def test_what_is_not_done_in_the_grace_time_is_told_so_and_the_exit_code_is_0(tmp_path: Path) -> None:
    async with (
        running_app(tmp_path, MYSERVE_SHUTDOWN_GRACE="0.1") as (process, url),
        httpx2.AsyncClient(base_url=url, timeout=PATIENCE) as client,
        client.stream("POST", CHAT, json={**ENDLESS, "max_tokens": 8000}) as answer,
    ):
        lines = answer.aiter_lines()
        await anext(lines)
        process.send_signal(signal.SIGTERM)
        rest = [line async for line in lines if line.startswith("data: ")]
        assert json.loads(rest[-1].removeprefix("data: "))["error"]["type"] == "server_error"
        assert await asyncio.wait_for(process.wait(), PATIENCE) == 0
