"""The rivals behind their door: greedy answers as long as asked, each in its own manner of coming."""

from __future__ import annotations

import asyncio
import itertools
import socket
from contextlib import asynccontextmanager

import httpx2
import pytest
import uvicorn

from benchmarks.rivals.app import create_rival_app
from benchmarks.rivals.baselines import RIVALS
from myserve_ui.bench.client.client import Target, send
from myserve_ui.bench.loads import ClosedLoop
from myserve_ui.bench.runner import RunPlan, run_benchmark
from myserve_ui.bench.workload import Lengths, Workload
from myserve_ui.core.requests import Message
from myserve_ui.models.baseline import generate_without_cache
from myserve_ui.models.tiny import build_tiny_loaded_model

NO_END: frozenset[int] = frozenset()


@pytest.fixture(scope="module")
def loaded():
    return build_tiny_loaded_model("llama")


@asynccontextmanager
async def serve(app):
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=1))
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    finally:
        server.should_exit = True
        await serving


async def ask(kind, loaded, *, requests=3, concurrency=1):
    workload = Workload(requests, Lengths(4, 4), Lengths(6, 6))
    async with serve(create_rival_app(kind, loaded)) as url:
        plan = RunPlan(Target(url, kind), workload, ClosedLoop(concurrency), warm_up=False)
        steps = [step async for step in run_benchmark(plan)]
    return steps[-1].records


@pytest.mark.parametrize("kind", RIVALS)
async def test_every_rival_gives_the_greedy_text_of_the_length_asked_for(kind, loaded):
    async with serve(create_rival_app(kind, loaded)) as url, httpx2.AsyncClient() as client:
        planned = Workload(3, Lengths(4, 4), Lengths(6, 6)).plan(ClosedLoop(1))
        records = [await send(client, Target(url, kind), request, arrival=0.0) for request in planned]
    for request, record in zip(planned, records, strict=True):
        prompt = loaded.tokenizer.render_chat([Message(*request.messages[0])])
        ids = generate_without_cache(loaded.module, prompt, max_tokens=6, end_token_ids=NO_END)
        assert (record.error, record.prompt_tokens, record.output_tokens) == (None, len(prompt), 6)
        assert record.text == loaded.tokenizer.decode(ids)


async def test_a_window_is_answered_in_one_piece(loaded):
    records = await ask("windows", loaded)
    assert all(record.tpot is None and len(record.chunk_times) == 1 for record in records)


@pytest.mark.parametrize("kind", ["generate", "no-cache"])
async def test_tokens_come_one_by_one_and_requests_one_after_the_other(kind, loaded):
    records = await ask(kind, loaded, concurrency=3)
    in_turn = sorted(records, key=lambda record: record.first_token)
    assert all(len(record.chunk_times) > 1 for record in records)
    # A busy client may read an answer's last chunk beside the next one's first, but no earlier chunk.
    assert all(one.chunk_times[-2] <= other.first_token for one, other in itertools.pairwise(in_turn))
