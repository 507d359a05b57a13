"""The benchmark over the app's own port: loads, measures, keeps, refuses a second run, and stops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from myserve_ui.bench.benchmark_service import BenchmarkService, OwnDoor
from myserve_ui.bench.documents.store import RunStore
from myserve_ui.bench.loads import ClosedLoop
from myserve_ui.bench.machine.speeds import MachineSpeeds
from myserve_ui.bench.question.question import AskedTarget
from myserve_ui.bench.roofline.roofline import MachineSpeed
from myserve_ui.bench.workload import Lengths, Workload
from myserve_ui.errors import InvalidRequestError, ModelNotFoundError, OverloadedError
from tests.api.live import serve_door
from tests.bench.made_runs import make_request
from tests.conftest import load_tiny

SPEED = MachineSpeed(1e9, 1e12, "cpu", "float32")


@pytest.fixture
async def benchmarks(make_service, tmp_path) -> AsyncIterator[BenchmarkService]:
    chat = await make_service("echo", "llama")
    measured: list[object] = []
    async with serve_door(chat) as url:
        service = BenchmarkService(
            chat,
            chat._pool,
            RunStore(tmp_path),
            own=OwnDoor(f"{url}/v1"),
            speeds=MachineSpeeds(lambda device, dtype: measured.append((device, dtype)) or SPEED),
        )
        service.measured = measured
        yield service


def request(service, *names, requests=4, tokens=4, **fields):
    workload = Workload(requests, output_tokens=Lengths(tokens, tokens))
    targets = tuple(service.own_target(name) for name in names)
    return make_request(targets, workload, (ClosedLoop(2),), warm_up=False, **fields)


async def test_a_run_over_the_own_port_is_measured_and_kept(benchmarks):
    steps = [step async for step in benchmarks.run(request(benchmarks, "echo", "llama"))]
    document = steps[-1].document
    assert [(row.model, row.completed) for row in document.rows] == [("echo", 4), ("llama", 4)]
    assert [row.output_tokens for row in document.rows] == [16, 16]
    assert document.machine.cores and document.versions["torch"]
    assert document.client_overhead_ms.request > 0
    for row in document.rows:  # what the server tells fits into what the client sees
        assert 0 < sum(dict(row.server_ms).values()) < row.e2e_ms.mean + 1.0
    (line,) = (await benchmarks.runs()).runs
    assert await benchmarks.load_run(line.id) == document


async def test_a_run_that_is_not_to_be_kept_is_not(benchmarks):
    async for _step in benchmarks.run(request(benchmarks, "echo"), save=False):
        pass
    assert (await benchmarks.runs()).runs == ()


async def test_a_run_that_could_not_be_kept_is_refused_before_it_is_measured(make_service):
    chat, own = await make_service("echo"), OwnDoor("http://127.0.0.1:9/v1")
    service = BenchmarkService(chat, chat._pool, RunStore(Path("/dev/null/x")), own=own, speeds=MachineSpeeds())
    with pytest.raises(InvalidRequestError, match=r"Runs cannot be saved \(Not a directory\)"):
        await anext(service.run(request(service, "echo")))


async def test_a_second_run_is_refused_and_a_stopped_one_is_kept(benchmarks):
    steps = benchmarks.run(request(benchmarks, "echo", requests=2000, tokens=16))
    async for step in steps:
        if step.done > 3:
            break
    with pytest.raises(OverloadedError, match="is running"):
        await anext(benchmarks.run(request(benchmarks, "echo")))
    await steps.aclose()
    assert not benchmarks.is_running
    (line,) = (await benchmarks.runs()).runs
    assert line.stopped
    assert (await benchmarks.load_run(line.id)).rows[0].completed > 3


async def test_a_task_that_is_cancelled_leaves_nothing_running(benchmarks):
    async def read() -> None:
        async for _step in benchmarks.run(request(benchmarks, "echo", requests=2000, tokens=16)):
            pass

    task = asyncio.create_task(read())
    await asyncio.sleep(0.3)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert not benchmarks.is_running


async def test_two_runs_are_compared(benchmarks):
    ids = []
    for _ in range(2):
        async for step in benchmarks.run(request(benchmarks, "echo")):
            document = step.document
        ids.append(document.id)
    comparison = await benchmarks.compare(*ids)
    assert comparison.is_paired
    assert comparison.rows[0].latencies.e2e_ms.n == 4


async def test_names_are_keys_or_precisions(benchmarks):
    assert benchmarks.own_target("").target.model == "echo"
    assert benchmarks.own_target("llama").target.model == "llama"
    with pytest.raises(ModelNotFoundError):
        benchmarks.own_target("banana")


async def test_a_model_without_weights_has_no_roofline(benchmarks):
    with pytest.raises(InvalidRequestError, match="no weights"):
        await benchmarks.roofline("echo")


async def test_strangers_cannot_reach_other_servers_through_the_app(benchmarks):
    (named,) = await benchmarks.other_targets(AskedTarget("m", "http://127.0.0.1:9/v1/"))
    assert (named.target.url, named.target.model) == ("http://127.0.0.1:9/v1", "m")
    benchmarks.own = OwnDoor("http://127.0.0.1:1/v1", measures_others=False)
    with pytest.raises(InvalidRequestError, match=r"127\.0\.0\.1"):
        await benchmarks.other_targets(AskedTarget("m", "http://10.0.0.1/v1"))


async def test_a_machine_measured_anew_is_as_fast_as_its_best_measurement(make_service, tmp_path):
    def load(entry, on_progress):
        loaded = load_tiny(entry, on_progress)
        costs = {"bytes_per_step": 1000, "num_parameters": 500, "device": "cpu", "dtype": "float32"}
        return replace(loaded, info=replace(loaded.info, **costs))

    found = iter([MachineSpeed(1e9, 5e12, "cpu", "float32"), MachineSpeed(3e9, 1e12, "cpu", "float32")])
    chat = await make_service("llama", load=load)
    own = OwnDoor("http://127.0.0.1:9/v1")
    service = BenchmarkService(
        chat, chat._pool, RunStore(tmp_path), own=own, speeds=MachineSpeeds(lambda *_: next(found))
    )
    document = await service.roofline_anew("llama")
    assert (document.bandwidth_bytes_per_s, document.flops_per_s) == (3e9, 5e12)
