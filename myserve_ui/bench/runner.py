"""Runs a workload against a server: warm-up, then so many at once or by the clock, until done or out of time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field, replace

import httpx2

from myserve_ui.bench.client import Target, send
from myserve_ui.bench.records import Outcome, RequestRecord
from myserve_ui.bench.workload import ClosedLoop, Load, PlannedRequest, Workload

REQUEST_TIMEOUT = 600.0
WARM_UP_REQUESTS = 2
"""For each place of a closed loop, at least; an open loop warms up with twice as many in all."""
PROGRESS_INTERVAL = 0.5


@dataclass(frozen=True, slots=True)
class RunPlan:
    """One run of a benchmark: what, how fast, against whom, for how long at most."""

    target: Target
    workload: Workload
    load: Load
    time_limit: float = 600.0
    """Seconds; what is unfinished then is cancelled and counted as such."""
    warm_up: bool = True


@dataclass(frozen=True, slots=True)
class RunProgress:
    """How far a run is; the last one has every record."""

    done: int
    total: int
    seconds: float
    is_warm_up: bool = False
    records: tuple[RequestRecord, ...] | None = None

    @property
    def seconds_left(self) -> float | None:
        """By the pace so far; None before anything is done."""
        return self.seconds / self.done * (self.total - self.done) if self.done else None


@dataclass(slots=True)
class _Run:
    plan: RunPlan
    requests: list[PlannedRequest]
    client: httpx2.AsyncClient
    clock: Callable[[], float]
    started: float
    records: list[RequestRecord] = field(default_factory=list)

    async def request(self, planned: PlannedRequest, arrival: float) -> None:
        sent = self.clock()
        try:
            record = await send(self.client, self.plan.target, planned, arrival=arrival, clock=self.clock)
        except asyncio.CancelledError:
            self.records.append(RequestRecord(planned.index, arrival, sent, Outcome.CANCELLED, self.clock()))
            raise
        self.records.append(record)


async def run_benchmark(
    plan: RunPlan,
    *,
    transport: httpx2.AsyncBaseTransport | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> AsyncGenerator[RunProgress, None]:
    """Progress twice a second, and at the end the records. Leaving cancels what is on its way.

    The warm-up runs at the load's own concurrency and lengths, with other prompts, and is not counted.
    """
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=64)
    timeout = httpx2.Timeout(REQUEST_TIMEOUT, connect=10.0)
    async with httpx2.AsyncClient(transport=transport, limits=limits, timeout=timeout, trust_env=False) as client:
        if plan.warm_up:
            warm = _warm_up_of(plan)
            requests = warm.workload.plan(warm.load, salt="/warm")
            async with aclosing(_drive(_Run(warm, requests, client, clock, clock()))) as steps:
                async for progress in steps:
                    yield replace(progress, is_warm_up=True, records=None)
        run = _Run(plan, plan.workload.plan(plan.load), client, clock, clock())
        async with aclosing(_drive(run)) as steps:
            async for progress in steps:
                yield progress


def _warm_up_of(plan: RunPlan) -> RunPlan:
    places = plan.load.concurrency if isinstance(plan.load, ClosedLoop) else 1
    count = min(max(places, WARM_UP_REQUESTS), plan.workload.num_requests)
    return replace(plan, workload=replace(plan.workload, num_requests=count), load=ClosedLoop(places))


async def _drive(run: _Run) -> AsyncGenerator[RunProgress, None]:
    work = asyncio.create_task(_closed_loop(run) if isinstance(run.plan.load, ClosedLoop) else _open_loop(run))
    total, deadline = len(run.requests), run.started + run.plan.time_limit
    try:
        while not work.done() and run.clock() < deadline:
            yield RunProgress(len(run.records), total, run.clock() - run.started)
            await asyncio.wait({work}, timeout=min(PROGRESS_INTERVAL, max(deadline - run.clock(), 0.0)))
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
    if not work.cancelled() and (error := work.exception()) is not None:
        raise error
    _note_unsent(run)
    ordered = tuple(sorted(run.records, key=lambda record: record.index))
    yield RunProgress(total, total, run.clock() - run.started, records=ordered)


async def _closed_loop(run: _Run) -> None:
    """So many workers, each with one request at a time."""
    assert isinstance(run.plan.load, ClosedLoop)
    waiting = iter(run.requests)

    async def work() -> None:
        for planned in waiting:
            await run.request(planned, run.clock())

    async with asyncio.TaskGroup() as group:
        for _ in range(min(run.plan.load.concurrency, len(run.requests))):
            group.create_task(work())


async def _open_loop(run: _Run) -> None:
    """Each request at its planned moment, whoever is still on the way."""
    async with asyncio.TaskGroup() as group:
        for planned in run.requests:
            arrival = run.started + (planned.offset or 0.0)
            await asyncio.sleep(max(arrival - run.clock(), 0.0))
            group.create_task(run.request(planned, arrival))


def _note_unsent(run: _Run) -> None:
    """What the time limit kept from being sent is cancelled too, so that the counts add up."""
    seen = {record.index for record in run.records}
    now = run.clock()
    run.records += [
        RequestRecord(planned.index, now, now, Outcome.CANCELLED, now)
        for planned in run.requests
        if planned.index not in seen
    ]
