"""The response cache seen from outside: X-Cache, Cache-Control, and callers who never share."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2
import pytest

from myserve_ui.serving.response_cache import ResponseCache
from tests.api.live import serve_door
from tests.conftest import MakeService

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
BODY = {"model": "llama", "messages": [{"role": "user", "content": "Hi"}], "temperature": 0, "max_tokens": 5}


@pytest.fixture
async def client(make_service: MakeService) -> AsyncIterator[httpx2.AsyncClient]:
    service = await make_service("llama", cache=ResponseCache(64, 2**20))
    async with serve_door(service) as url, httpx2.AsyncClient(base_url=url, timeout=30.0) as client:
        yield client


async def ask(client: httpx2.AsyncClient, headers: dict[str, str] | None = None, **fields: object) -> httpx2.Response:
    reply = await client.post(CHAT, json={**BODY, **fields}, headers=headers)
    assert reply.status_code == 200
    return reply


async def test_the_second_same_request_is_a_hit_with_the_same_answer(client: httpx2.AsyncClient) -> None:
    first, second = await ask(client), await ask(client)
    assert (first.headers["x-cache"], second.headers["x-cache"]) == ("MISS", "HIT")
    assert first.json()["choices"] == second.json()["choices"]
    assert first.json()["usage"] == second.json()["usage"]
    assert first.json()["id"] != second.json()["id"]


async def test_a_hit_is_streamed_like_any_answer(client: httpx2.AsyncClient) -> None:
    whole = await ask(client)
    streamed = await ask(client, stream=True, stream_options={"include_usage": True})
    assert streamed.headers["x-cache"] == "HIT"
    assert streamed.text.endswith("data: [DONE]\n\n")
    assert whole.json()["usage"]["completion_tokens"] == 5
    assert '"completion_tokens":5' in streamed.text


@pytest.mark.parametrize("spelling", ["no-store", "No-Store", "max-age=0, no-store"])
async def test_no_store_neither_reads_nor_keeps(client: httpx2.AsyncClient, spelling: str) -> None:
    passing = {"cache-control": spelling}
    assert (await ask(client, passing)).headers["x-cache"] == "MISS"
    assert (await ask(client)).headers["x-cache"] == "MISS"
    assert (await ask(client, passing)).headers["x-cache"] == "MISS"
    assert (await ask(client)).headers["x-cache"] == "HIT"


async def test_two_keys_never_share(client: httpx2.AsyncClient) -> None:
    await ask(client, {"authorization": "Bearer one"})
    assert (await ask(client, {"authorization": "Bearer two"})).headers["x-cache"] == "MISS"
    assert (await ask(client, {"authorization": "Bearer one"})).headers["x-cache"] == "HIT"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({}, {"temperature": 0.0}, True),
        ({}, {"seed": None, "stop": None, "n": None, "top_p": None, "logit_bias": None}, True),
        ({}, {"n": 1, "presence_penalty": 0, "logprobs": False}, True),
        ({"temperature": None, "seed": 1}, {"temperature": 1, "seed": 1, "top_p": 1}, True),
        ({"logit_bias": {"5": 1, "6": 2}}, {"logit_bias": {"6": 2, "5": 1}}, True),
        ({"temperature": None, "seed": 1}, {"temperature": 0, "seed": 1}, False),
        ({"seed": 1}, {"seed": 2}, False),
        ({"max_tokens": 5}, {"max_tokens": 50}, False),
        ({"stop": "e"}, {}, False),
        ({"n": 1}, {"n": 2}, False),
        ({"cache_prompt": False}, {}, False),
        (
            {"messages": [{"role": "system", "content": "a"}]},
            {"messages": [{"role": "system", "content": "a "}]},
            False,
        ),
    ],
)
async def test_what_is_the_same_request(
    client: httpx2.AsyncClient, one: dict[str, object], other: dict[str, object], same: bool
) -> None:
    await ask(client, **one)
    assert ((await ask(client, **other)).headers["x-cache"] == "HIT") is same


async def test_a_sampled_request_without_a_seed_is_computed_each_time(client: httpx2.AsyncClient) -> None:
    assert [(await ask(client, temperature=1)).headers["x-cache"] for _ in range(2)] == ["MISS", "MISS"]


async def test_several_prompts_are_a_hit_together(client: httpx2.AsyncClient) -> None:
    body = {"model": "llama", "prompt": ["One", "Two"], "temperature": 0, "max_tokens": 4, "logprobs": 2}
    first, second = [await client.post(TEXT, json=body) for _ in range(2)]
    assert (first.headers["x-cache"], second.headers["x-cache"]) == ("MISS", "HIT")
    assert first.json()["choices"] == second.json()["choices"]


async def test_metrics_count_hits_and_misses(client: httpx2.AsyncClient) -> None:
    for _ in range(3):
        await ask(client)
    lines = (await client.get("/metrics")).text.splitlines()
    assert "myserve:response_cache_hits_total 2.0" in lines
    assert "myserve:response_cache_misses_total 1.0" in lines
