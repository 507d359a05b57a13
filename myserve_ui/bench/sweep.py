"""Runs several models under several loads, side by side, and gathers the document of it all."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime

import httpx2

from myserve_ui.bench.client.overhead import ClientOverhead
from myserve_ui.bench.client.records import RequestRecord
from myserve_ui.bench.client.server_split import ServerSplit, ServerTimes, read_server_times
from myserve_ui.bench.documents.comparison import compare_rows_within
from myserve_ui.bench.documents.rows import RequestEntry, Row, make_row, relative_records
from myserve_ui.bench.documents.run import BenchmarkRun, RunSettings, new_run_id
from myserve_ui.bench.loads import Load, load_words
from myserve_ui.bench.machine.facts import Machine
from myserve_ui.bench.question.question import BenchmarkRequest, NamedTarget
from myserve_ui.bench.roofline.roofline import ModelRoofline
from myserve_ui.bench.runner import RunPlan, RunProgress, run_benchmark

Clock = Callable[[], float]
CARD_POINTS = ((1, 0), (1, 1024), (8, 1024), (32, 1024))
"""(batch, context) of the rows of a roofline document."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a sweep cannot see by itself."""

    machine: Machine = field(default_factory=Machine)
    versions: dict[str, str] = field(default_factory=dict)
    client_overhead_ms: ClientOverhead | None = None
    roofline: Callable[[NamedTarget], ModelRoofline | None] = lambda _target: None
    """Of a target, once it has answered; None where it is not known."""


@dataclass(frozen=True, slots=True)
class SweepProgress:
    """How far a sweep is; only the last step has a document."""

    text: str
    """What is going on, for people."""
    done: int
    """Requests; of `total` in all rows."""
    total: int
    seconds_left: float | None
    rows: tuple[Row, ...] = ()
    """Those that are finished."""
    document: BenchmarkRun | None = None


@dataclass(frozen=True, slots=True)
class _Finished:
    named: NamedTarget
    load: Load
    records: tuple[RequestRecord, ...]
    row: Row


class Sweep:
    """One benchmark; what is measured so far can be had at any time, also after `run` was left."""

    def __init__(
        self,
        request: BenchmarkRequest,
        *,
        transport: httpx2.AsyncBaseTransport | None = None,
        clock: Clock = time.perf_counter,
        surroundings: Surroundings | None = None,
    ) -> None:
        self._request = request = request.with_salt()
        self._transport = transport
        self._clock = clock
        self._surroundings = surroundings or Surroundings()
        self._settings = RunSettings.of(request)
        self._began = datetime.now(UTC)
        self._id = new_run_id(self._began)
        self._finished: list[_Finished] = []
        self._current: tuple[NamedTarget, Load, tuple[RequestRecord, ...]] | None = None
        self._started = self._deadline = clock()
        self._is_done = False

    @property
    def has_results(self) -> bool:
        return bool(self._finished) or bool(self._current and self._current[2])

    async def run(self) -> AsyncGenerator[SweepProgress, None]:
        """Steps until every row is measured or the time is over; the last one has the document."""
        self._started = self._clock()
        self._deadline = self._started + self._request.question.time_limit
        for place, load in self._order():
            if self._clock() < self._deadline:
                async with aclosing(self._measure(place, load)) as steps:
                    async for step in steps:
                        yield step
        self._is_done = self._is_complete()
        document = self.document()
        total = self._request.num_requests
        text = "stopped by the time limit" if document.stopped else "done"
        yield SweepProgress(text, total, total, 0.0, document.rows, document)

    def document(self) -> BenchmarkRun:
        """All that is measured; `stopped` is True if there should be more."""
        finished, around = [*self._finished, *self._interrupted()], self._surroundings
        rooflines = {entry.row.model: around.roofline(entry.named) for entry in finished}
        run = BenchmarkRun(
            id=self._id,
            started=self._began.isoformat(timespec="seconds"),
            stopped=not self._is_done,
            settings=self._settings,
            machine=around.machine,
            versions=around.versions,
            client_overhead_ms=around.client_overhead_ms,
            rows=tuple(entry.row for entry in finished),
            requests=tuple(RequestEntry.of(record, i) for i, entry in enumerate(finished) for record in entry.records),
            rooflines={model: found.document(CARD_POINTS) for model, found in rooflines.items() if found},
        )
        return run.model_copy(update={"differences": compare_rows_within(run)})

    def _is_complete(self) -> bool:
        """Whether every row is there, and the time limit cut none short."""
        has_all = len(self._finished) == len(self._request.targets) * len(self._request.question.loads)
        is_late = self._clock() >= self._deadline
        return has_all and not (is_late and self._finished[-1].row.cancelled)

    def _order(self) -> Iterator[tuple[int, Load]]:
        """Places of targets, load by load; every second one turned round, so that no model is always the later one."""
        for number, load in enumerate(self._request.question.loads):
            places = range(len(self._request.targets))
            yield from ((place, load) for place in (places if number % 2 == 0 else reversed(places)))

    async def _measure(self, place: int, load: Load) -> AsyncGenerator[SweepProgress, None]:
        request, named = self._request, self._request.targets[place]
        workload, seconds = request.workload_of(place), self._deadline - self._clock()
        plan = RunPlan(named.target, workload, load, seconds, request.question.warm_up)
        before: ServerTimes | None = None
        async with aclosing(run_benchmark(plan, transport=self._transport, clock=self._clock)) as steps:
            async for step in steps:
                self._current = (named, load, step.records)
                if not step.is_warm_up and step.done == 0:
                    before = await read_server_times(named.target, transport=self._transport)
                if step.is_last:
                    split = await self._server_split(named, before)
                    self._finished.append(self._finish(named, load, step.records, split))
                    self._current = None
                yield self._progress(named, load, step)

    async def _server_split(self, named: NamedTarget, before: ServerTimes | None) -> ServerSplit | None:
        """The server's own account of the row, beside the client's."""
        after = await read_server_times(named.target, transport=self._transport)
        return after.mean_ms_since(before) if before and after else None

    def _interrupted(self) -> Iterator[_Finished]:
        """The row that was being measured when the sweep was left, with what had ended."""
        if self._current and self._current[2]:
            yield self._finish(*self._current)

    def _finish(
        self, named: NamedTarget, load: Load, records: tuple[RequestRecord, ...], split: ServerSplit | None = None
    ) -> _Finished:
        relative = relative_records(records)
        row = make_row(
            named, load, relative, self._request.question.limits, roofline=self._surroundings.roofline(named)
        )
        return _Finished(named, load, relative, row.model_copy(update={"server_ms": split}))

    def _progress(self, named: NamedTarget, load: Load, step: RunProgress) -> SweepProgress:
        size = self._request.question.workload.num_requests
        done = size * len(self._finished) + (0 if step.is_warm_up or step.is_last else step.done)
        what = "warming up" if step.is_warm_up else f"{step.done} of {step.total} requests"
        return SweepProgress(
            text=f"{self._request.name_of(named)}, {load_words(load)}: {what}",
            done=done,
            total=self._request.num_requests,
            seconds_left=self._seconds_left(done),
            rows=tuple(entry.row for entry in self._finished),
        )

    def _seconds_left(self, done: int) -> float | None:
        """By the pace so far, at most until the time limit."""
        if not done:
            return None
        now = self._clock()
        pace = (now - self._started) / done
        return min(pace * (self._request.num_requests - done), max(self._deadline - now, 0.0))
