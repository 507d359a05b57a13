"""/metrics: the names that dashboards know, figures that follow what happened, and nothing shared between apps."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from prometheus_client.parser import text_string_to_metric_families

from tests.api.real_door import CHAT, TEXT, RealDoor, open_door, until, user

pytestmark = pytest.mark.asyncio(loop_scope="module")

GAUGES = "num_requests_running num_requests_waiting kv_cache_usage_perc"
COUNTERS = "prompt_tokens generation_tokens prefix_cache_queries prefix_cache_hits num_preemptions"
HISTOGRAMS = (
    "time_to_first_token_seconds inter_token_latency_seconds request_time_per_output_token_seconds "
    "e2e_request_latency_seconds request_queue_time_seconds request_prefill_time_seconds request_decode_time_seconds"
)
Labels = frozenset[tuple[str, str]]


@pytest_asyncio.fixture(scope="function", loop_scope="module")
async def fresh() -> AsyncIterator[RealDoor]:
    """A door whose books are empty."""
    async with open_door("llama") as door:
        yield door


async def scrape(door: RealDoor) -> dict[tuple[str, Labels], float]:
    response = await door.http.get("/metrics")
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    families = text_string_to_metric_families(response.text)
    return {(s.name, frozenset(s.labels.items())): s.value for family in families for s in family.samples}


async def value(door: RealDoor, name: str, **labels: str) -> float:
    wanted = frozenset({"model_name": "llama", **labels}.items())
    return (await scrape(door)).get((name, wanted), 0.0)


async def test_every_promised_name_is_there_after_one_request(fresh: RealDoor) -> None:
    await fresh.ask(TEXT, model="llama", prompt="Hello", max_tokens=3, ignore_eos=True)
    names = {name for name, _ in await scrape(fresh)}
    assert {f"vllm:{name}" for name in GAUGES.split()} <= names
    assert {f"vllm:{name}_total" for name in COUNTERS.split()} <= names
    assert {f"vllm:{name}_{part}" for name in HISTOGRAMS.split() for part in ("bucket", "sum", "count")} <= names
    assert {"vllm:request_success_total", "myserve:engine_up"} <= names


async def test_tokens_and_ends_are_counted(fresh: RealDoor) -> None:
    length = await fresh.ask(CHAT, model="llama", messages=user("Hi"), max_tokens=5, ignore_eos=True)
    await fresh.ask(TEXT, model="llama", prompt="a", logit_bias={"98": 100}, stop="b")
    assert await value(fresh, "vllm:request_success_total", finished_reason="length") == 1
    assert await value(fresh, "vllm:request_success_total", finished_reason="stop") == 1
    assert await value(fresh, "vllm:generation_tokens_total") == 6
    assert await value(fresh, "vllm:prompt_tokens_total") == length["usage"]["prompt_tokens"] + 2
    assert await value(fresh, "vllm:time_to_first_token_seconds_count") == 2
    assert await value(fresh, "vllm:inter_token_latency_seconds_count") == 4
    assert await value(fresh, "vllm:request_time_per_output_token_seconds_count") == 1


async def test_the_parts_of_a_latency_add_up(fresh: RealDoor) -> None:
    await fresh.ask(TEXT, model="llama", prompt="Hello", max_tokens=20, ignore_eos=True)
    parts = [await value(fresh, f"vllm:request_{part}_time_seconds_sum") for part in ("queue", "prefill", "decode")]
    assert sum(parts) == pytest.approx(await value(fresh, "vllm:e2e_request_latency_seconds_sum"))
    assert parts[2] == pytest.approx(await value(fresh, "vllm:inter_token_latency_seconds_sum"))
    assert parts[0] + parts[1] == pytest.approx(await value(fresh, "vllm:time_to_first_token_seconds_sum"))


async def test_cached_prompt_tokens_are_hits(fresh: RealDoor) -> None:
    for _ in range(2):
        await fresh.ask(TEXT, model="llama", prompt="x" * 99, max_tokens=1)
    assert await value(fresh, "vllm:prefix_cache_queries_total") == 200
    assert await value(fresh, "vllm:prefix_cache_hits_total") == 99


async def test_running_requests_show_and_an_abort_is_no_success(fresh: RealDoor) -> None:
    body = {"model": "llama", "prompt": "a", "max_tokens": 400, "ignore_eos": True, "stream": True}
    asking = asyncio.create_task(fresh.http.post(TEXT, json=body))
    await until(lambda: fresh.engine("llama").num_running == 1)
    running = await value(fresh, "vllm:num_requests_running")
    used = await value(fresh, "vllm:kv_cache_usage_perc")
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    await until(lambda: fresh.engine("llama").num_running == 0)
    assert running == 1
    assert 0 < used <= 1
    assert await value(fresh, "myserve:requests_aborted_total") == 1
    assert await value(fresh, "vllm:request_success_total", finished_reason="length") == 0
    assert await value(fresh, "vllm:e2e_request_latency_seconds_count") == 0


async def test_refusals_are_counted_by_their_code(fresh: RealDoor) -> None:
    await fresh.refuse(TEXT, model="llama", prompt="x" * 10_000)
    await fresh.http.post(TEXT, json={"model": "nope", "prompt": "x"})
    samples = await scrape(fresh)
    refused = {dict(labels)["code"]: number for (name, labels), number in samples.items() if "rejected_total" in name}
    assert refused == {"context_length_exceeded": 1, "model_not_found": 1}
    assert not any("nope" in str(labels) for _, labels in samples)


async def test_two_apps_in_one_process_share_no_figure(fresh: RealDoor) -> None:
    async with open_door("llama") as other:
        await other.ask(TEXT, model="llama", prompt="a", max_tokens=2, ignore_eos=True)
        assert await value(other, "vllm:generation_tokens_total") == 2
        assert await value(fresh, "vllm:generation_tokens_total") == 0
        assert await value(fresh, "vllm:request_success_total", finished_reason="length") == 0
