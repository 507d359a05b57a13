"""Runs made by hand: a question over scripted targets, and the rows of given records."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from myserve_ui.bench.client.client import Target
from myserve_ui.bench.client.records import Outcome, RequestRecord
from myserve_ui.bench.documents.rows import RequestEntry, make_row
from myserve_ui.bench.documents.run import BenchmarkRun, RunSettings, new_run_id
from myserve_ui.bench.limits import interactive_limits
from myserve_ui.bench.loads import ClosedLoop, Load
from myserve_ui.bench.machine.facts import Machine
from myserve_ui.bench.question.question import AskedTarget, BenchmarkQuestion, BenchmarkRequest, NamedTarget
from myserve_ui.bench.workload import Workload

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def make_request(
    targets: Sequence[NamedTarget], workload: Workload, loads: Sequence[Load], **fields: Any
) -> BenchmarkRequest:
    """A question whose targets are found already."""
    asked = tuple(AskedTarget(named.target.model, named.target.url, name=named.precision) for named in targets)
    return BenchmarkRequest(tuple(targets), BenchmarkQuestion(asked, tuple(loads), workload, **fields))


def make_run(
    request: BenchmarkRequest, records: Sequence[RequestRecord] = (), *, started: datetime = START
) -> BenchmarkRun:
    """What would be kept of `request` if every row had `records`; without records no row was measured."""
    rows, requests = [], []
    for load in request.question.loads if records else ():
        for named in request.targets:
            requests += [RequestEntry.of(record, len(rows)) for record in records]
            rows.append(make_row(named, load, records, interactive_limits()))
    return BenchmarkRun(
        id=new_run_id(started),
        started=started.isoformat(timespec="seconds"),
        stopped=False,
        settings=RunSettings.of(request),
        machine=Machine(),
        versions={},
        rows=tuple(rows),
        requests=tuple(requests),
        rooflines={},
    )


def one_row_run(minutes: int = 0) -> BenchmarkRun:
    """One answer of one model."""
    request = make_request((NamedTarget(Target("http://s/v1", "m"), "full"),), Workload(1), (ClosedLoop(1),))
    record = RequestRecord(
        0, 0.0, 0.0, Outcome.COMPLETED, 1.0, first_token=0.5, prompt_tokens=3, output_tokens=2, chunk_times=(0.5, 1.0)
    )
    return make_run(request, [record], started=START + timedelta(minutes=minutes))


def with_rows(run: BenchmarkRun, **fields: Any) -> BenchmarkRun:
    """`run` with `fields` in every row."""
    return run.model_copy(update={"rows": tuple(row.model_copy(update=fields) for row in run.rows)})
