"""Runs one load against one server: warm-up, then each request in its turn, until done or out of time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field, replace

import httpx2

from myserve_ui.bench.client.client import Target, send
from myserve_ui.bench.client.records import Outcome, RequestRecord
from myserve_ui.bench.loads import Arrival, ClosedLoop, Load, OpenLoop, Ramp
from myserve_ui.bench.salt import fresh_salt
from myserve_ui.bench.workload import PlannedRequest, Workload

REQUEST_TIMEOUT = 600.0
WARM_UP_REQUESTS = 2
"""At least; a closed loop warms up with a request for each of its places."""
PROGRESS_INTERVAL = 0.5


@dataclass(frozen=True, slots=True)
class RunPlan:
    """One run of a benchmark: what, how fast, against whom, for how long at most."""

    target: Target
    workload: Workload
    load: Load
    time_limit: float = 600.0
    """Seconds with the warm-up; what is unfinished then is cancelled and counted as such."""
    warm_up: bool = True


@dataclass(frozen=True, slots=True)
class RunProgress:
    """How far a run is."""

    done: int
    total: int
    records: tuple[RequestRecord, ...] = ()
    """What has ended so far; of the last step every request, in order. A warm-up has none."""
    is_warm_up: bool = False
    is_last: bool = False


class _Places:
    """How many conversations are on their way; one task waits for a place."""

    def __init__(self) -> None:
        self._taken = 0
        self._freed = asyncio.Event()

    async def take(self, limit: int | None) -> None:
        while limit is not None and self._taken >= limit:
            self._freed.clear()
            await self._freed.wait()
        self._taken += 1

    def free(self) -> None:
        self._taken -= 1
        self._freed.set()


@dataclass(slots=True)
class _Run:
    plan: RunPlan
    requests: list[PlannedRequest]
    client: httpx2.AsyncClient
    clock: Callable[[], float]
    deadline: float
    started: float
    records: list[RequestRecord] = field(default_factory=list)

    def conversations(self) -> Iterator[list[PlannedRequest]]:
        size = self.plan.workload.turns
        for first in range(0, len(self.requests), size):
            yield self.requests[first : first + size]

    async def converse(self, turns: list[PlannedRequest], arrival: float) -> None:
        """Each turn with what was really answered before it; the first that fails ends the conversation."""
        history: tuple[tuple[str, str], ...] = ()
        for turn in turns:
            asked = replace(turn, messages=history + turn.messages)
            record = await self.request(asked, arrival)
            self.records.append(replace(record, text=""))  # thousands of answers are not kept
            if record.outcome is not Outcome.COMPLETED:
                return
            history = (*asked.messages, ("assistant", record.text))
            arrival = self.clock()

    async def request(self, planned: PlannedRequest, arrival: float) -> RequestRecord:
        sent = self.clock()
        try:
            record = await send(self.client, self.plan.target, planned, arrival=arrival, clock=self.clock)
        except asyncio.CancelledError:
            self.records.append(RequestRecord(planned.index, arrival, sent, Outcome.CANCELLED, self.clock()))
            raise
        return record


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
    deadline = clock() + plan.time_limit
    async with httpx2.AsyncClient(transport=transport, limits=limits, timeout=timeout, trust_env=False) as client:
        if plan.warm_up:
            warm = _warm_up_of(plan)
            requests = warm.workload.plan(warm.load, part="/warm")
            async with aclosing(_drive(_Run(warm, requests, client, clock, deadline, clock()))) as steps:
                async for progress in steps:
                    yield replace(progress, is_warm_up=True, is_last=False, records=())
        run = _Run(plan, plan.workload.plan(plan.load), client, clock, deadline, clock())
        async with aclosing(_drive(run)) as steps:
            async for progress in steps:
                yield progress


def _warm_up_of(plan: RunPlan) -> RunPlan:
    first = plan.load.steps[0] if isinstance(plan.load, Ramp) else plan.load
    places = 1 if isinstance(first, OpenLoop) else first.concurrency
    count = min(max(places, WARM_UP_REQUESTS), plan.workload.num_requests)
    salt = plan.workload.salt or fresh_salt()  # also where what is measured has none: nothing is warmed for it
    return replace(
        plan, workload=replace(plan.workload, num_requests=count, turns=1, salt=salt), load=ClosedLoop(places)
    )


async def _drive(run: _Run) -> AsyncGenerator[RunProgress, None]:
    work = asyncio.create_task(_send_all(run))
    total = len(run.requests)
    try:
        while not work.done() and run.clock() < run.deadline:
            yield RunProgress(len(run.records), total, tuple(run.records))
            await asyncio.wait({work}, timeout=min(PROGRESS_INTERVAL, max(run.deadline - run.clock(), 0.0)))
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
    if not work.cancelled() and (error := work.exception()) is not None:
        raise error
    _note_unsent(run)
    ordered = tuple(sorted(run.records, key=lambda record: record.index))
    yield RunProgress(total, total, ordered, is_last=True)


async def _send_all(run: _Run) -> None:
    """Each conversation when its moment has come and there is a place for it."""
    places = _Places()
    async with asyncio.TaskGroup() as group:
        for turns in run.conversations():
            planned = turns[0].arrival or Arrival(None, None)
            await places.take(planned.places)
            arrival = run.clock() if planned.offset is None else run.started + planned.offset
            await asyncio.sleep(max(arrival - run.clock(), 0.0))
            group.create_task(run.converse(turns, arrival)).add_done_callback(lambda _task: places.free())


def _note_unsent(run: _Run) -> None:
    """What was kept from being sent is cancelled too, so that the counts add up."""
    seen = {record.index for record in run.records}
    now = run.clock()
    run.records += [
        RequestRecord(planned.index, now, now, Outcome.CANCELLED, now)
        for planned in run.requests
        if planned.index not in seen
    ]
