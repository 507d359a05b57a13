"""10,000 short requests of mixed fate do not make the process grow: a whole app in a process of its own."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx2
import psutil
import pytest

from tests.api.test_launcher import CHAT, running_app
from tests.faults.visitor import Visitor

FIRST, ALL, AT_ONCE = 1_000, 10_000, 16
MOST_GROWTH = 0.02
BODY = {"model": "echo", "temperature": 0, "max_tokens": 20}
Fate = Callable[[httpx2.AsyncClient, int], Awaitable[None]]


def body(number: int, **fields: object) -> dict[str, object]:
    return {**BODY, "messages": [{"role": "user", "content": f"request {number}"}], **fields}


async def post(client: httpx2.AsyncClient, status: int, **fields: object) -> None:
    reply = await client.post(CHAT, json=fields)
    assert reply.status_code == status, reply.text


async def whole(client: httpx2.AsyncClient, number: int) -> None:
    await post(client, 200, **body(number))


async def streamed(client: httpx2.AsyncClient, number: int) -> None:
    await post(client, 200, **body(number, stream=True))


async def sampled(client: httpx2.AsyncClient, number: int) -> None:
    await post(client, 200, **body(number, temperature=1.0, n=2, logprobs=True, top_logprobs=3))


async def cached(client: httpx2.AsyncClient, number: int) -> None:
    await post(client, 200, **body(number % 7))


async def stopped(client: httpx2.AsyncClient, number: int) -> None:
    await post(client, 200, **body(number, stop=["quest", "zz"], logit_bias={"70": 1}, seed=number))


async def refused(client: httpx2.AsyncClient, number: int) -> None:
    await post(client, 400, **body(number, temperature=7))


async def unknown(client: httpx2.AsyncClient, number: int) -> None:
    await post(client, 404, **body(number, model=f"model-{number}"))


async def too_long(client: httpx2.AsyncClient, number: int) -> None:
    await post(client, 400, **body(number, max_tokens=10**6))


async def left_early(client: httpx2.AsyncClient, number: int) -> None:
    visitor = await Visitor.ask(str(client.base_url), **body(number, max_tokens=2000, ignore_eos=True, stream=True))
    await visitor.read_until(b"\n\n")
    visitor.vanish()


async def left_at_once(client: httpx2.AsyncClient, number: int) -> None:
    visitor = await Visitor.ask(str(client.base_url), **body(number, max_tokens=2000, ignore_eos=True))
    visitor.vanish()


FATES: tuple[Fate, ...] = (
    whole,
    streamed,
    sampled,
    cached,
    stopped,
    refused,
    unknown,
    too_long,
    left_early,
    left_at_once,
)


async def send(client: httpx2.AsyncClient, numbers: range) -> None:
    """Send the requests, some at once; each has the fate that its number says."""
    waiting = iter(numbers)

    async def worker() -> None:
        for number in waiting:
            await FATES[number % len(FATES)](client, number)

    await asyncio.gather(*(worker() for _ in range(AT_ONCE)))


async def resident(process: psutil.Process, client: httpx2.AsyncClient) -> int:
    """Resident bytes of the app once nothing runs in it."""
    while (await client.get("/health")).json()["running"]:
        await asyncio.sleep(0.1)
    return int(process.memory_info().rss)


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_10000_short_requests_of_mixed_fate_leave_the_memory_as_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    limits = httpx2.Limits(max_connections=AT_ONCE)
    async with (
        running_app(tmp_path) as (process, url),
        httpx2.AsyncClient(base_url=url, timeout=60.0, limits=limits) as client,
    ):
        app, sizes = psutil.Process(process.pid), []
        for start in range(0, ALL, FIRST):
            await send(client, range(start, start + FIRST))
            sizes.append(await resident(app, client))
        growth = sizes[-1] / sizes[0] - 1
        with capsys.disabled():
            told = " ".join(f"{size / 2**20:.1f}" for size in sizes)
            sys.stdout.write(f"\nresident MiB after each {FIRST} requests: {told}; growth {growth:+.2%}\n")
        assert growth <= MOST_GROWTH
