"""A benchmark's document as a run would write it: two precisions of a model, every kind of load, some failures."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from myserve_ui.bench.client.client import Target
from myserve_ui.bench.client.records import Outcome, RequestRecord
from myserve_ui.bench.client.server_split import ServerSplit
from myserve_ui.bench.documents.rows import RequestEntry, Row, make_row
from myserve_ui.bench.documents.run import BenchmarkRun
from myserve_ui.bench.limits import server_limits
from myserve_ui.bench.loads import ClosedLoop, Load, OpenLoop
from myserve_ui.bench.machine.facts import Machine
from myserve_ui.bench.question.question import NamedTarget
from myserve_ui.bench.roofline.documents import Roofline
from myserve_ui.bench.roofline.roofline import MachineSpeed, ModelCost, ModelRoofline
from myserve_ui.bench.sweep import CARD_POINTS
from myserve_ui.bench.workload import Lengths, Workload
from tests.bench.made_runs import make_request, make_run

SPEED = MachineSpeed(20e9, 250e9, "cpu", "float32")
COSTS = {"tiny": ModelCost(538_000_000, 134_500_000, 46_080), "tiny:nf4": ModelCost(780_000_000, 134_500_000, 46_080)}
TARGETS = (
    NamedTarget(Target("http://127.0.0.1:7860/v1", "tiny"), "full"),
    NamedTarget(Target("http://127.0.0.1:7860/v1", "tiny:nf4"), "nf4"),
)
CLOSED = [ClosedLoop(number) for number in (1, 4, 16)]
OPEN = [OpenLoop(rate) for rate in (0.5, 2.0)]
SERVER = ServerSplit(queue=1.2, prefill=30.5, decode=812.0)
ERROR = "HTTP 500: <b>scripted</b>"


def bench_document(*, loads: Sequence[Load] = (*CLOSED, *OPEN), requests: int = 24) -> BenchmarkRun:
    """Rows and requests are drawn with a fixed seed."""
    generator = random.Random(1)
    rows: list[Row] = []
    records: list[RequestEntry] = []
    for load in loads:
        for named in TARGETS:
            made = _records(generator, load, slow=1.5 if named.precision == "nf4" else 1.0, count=requests)
            row = make_row(named, load, made, server_limits())
            records += [RequestEntry.of(record, len(rows)) for record in made]
            rows.append(row.model_copy(update={"roofline_share": 0.42, "server_ms": SERVER}))
    workload = Workload(requests, output_tokens=Lengths(16, 64))
    return changed(
        make_run(make_request(TARGETS, workload, loads, time_limit=600)),
        id="20261129-120000-1",
        started="2026-11-29T12:00:00+00:00",
        machine=Machine(
            cpu="A <processor>",
            cores=2,
            memory=8 * 2**30,
            device="cpu",
            bytes_per_s=SPEED.bytes_per_s,
            flops_per_s=SPEED.flops_per_s,
            dtype="float32",
        ),
        versions={"myserve_ui": "0.1.0", "torch": "2.13.0"},
        rows=tuple(rows),
        requests=tuple(records),
        rooflines={model: roofline_of(cost) for model, cost in COSTS.items()},
    )


def roofline_of(cost: ModelCost) -> Roofline:
    """Of a model that costs so much, on the machine of the run."""
    return ModelRoofline(SPEED, cost, cost.bytes_per_step).document(CARD_POINTS)


def changed(run: BenchmarkRun, **fields: Any) -> BenchmarkRun:
    """`run` with other `fields`."""
    return run.model_copy(update=fields)


def with_row(run: BenchmarkRun, **fields: Any) -> BenchmarkRun:
    """`run` with other `fields` of its first row."""
    first, *others = run.rows
    return changed(run, rows=(first.model_copy(update=fields), *others))


def with_request(run: BenchmarkRun, **fields: Any) -> BenchmarkRun:
    """`run` with other `fields` of its first request."""
    first, *others = run.requests
    return changed(run, requests=(first.model_copy(update=fields), *others))


def with_settings(run: BenchmarkRun, **fields: Any) -> BenchmarkRun:
    """`run` with other settings."""
    return changed(run, settings=run.settings.model_copy(update=fields))


def _records(generator: random.Random, load: Load, *, slow: float, count: int) -> list[RequestRecord]:
    places = load.concurrency if isinstance(load, ClosedLoop) else 4
    free = [0.0] * places
    made = []
    for index in range(count):
        arrival = index / load.rate if isinstance(load, OpenLoop) else min(free)
        sent = max(arrival, min(free))
        tokens = generator.randint(16, 64)
        first = sent + 0.05 * slow * places * generator.uniform(0.8, 1.6)
        step = 0.05 * slow * (1 + places / 12)
        times = tuple(first + step * number * generator.uniform(0.97, 1.03) for number in range(tokens))
        record = RequestRecord(
            index, arrival, sent, Outcome.COMPLETED, times[-1] + 0.002, first, times[-1], 37, tokens, times
        )
        if index == 5 and places == 16:
            record = replace(record, outcome=Outcome.FAILED, first_token=None, error=ERROR)
        free[free.index(min(free))] = record.end
        made.append(record)
    return made
