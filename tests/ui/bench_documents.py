"""A benchmark's document as a run would write it: two precisions of a model, every kind of load, some failures."""

from __future__ import annotations

import random
from dataclasses import asdict, replace
from typing import Any

from myserve_ui.bench.client.records import Outcome, RequestRecord
from myserve_ui.bench.roofline.roofline import MachineSpeed, ModelCost, write_roofline
from myserve_ui.bench.summary import summarise
from myserve_ui.bench.sweep import CARD_POINTS

SPEED = MachineSpeed(20e9, 250e9, "cpu", "float32")
COSTS = {"tiny": ModelCost(538_000_000, 134_500_000, 46_080), "tiny:nf4": ModelCost(780_000_000, 134_500_000, 46_080)}
CLOSED = [{"kind": "closed", "concurrency": number} for number in (1, 4, 16)]
OPEN = [{"kind": "open", "rate": rate, "burstiness": 1.0} for rate in (0.5, 2.0)]
SERVER = {"queue": 1.2, "prefill": 30.5, "decode": 812.0}
ERROR = "HTTP 500: <b>scripted</b>"


def bench_document(*, loads: list[dict[str, Any]] | None = None, requests: int = 24) -> dict[str, Any]:
    """Rows and requests are drawn with a fixed seed."""
    generator = random.Random(1)
    rows, records = [], []
    for load in loads or [*CLOSED, *OPEN]:
        for model in COSTS:
            made = _records(generator, load, slow=1.5 if model.endswith("nf4") else 1.0, count=requests)
            rows.append(_row(model, load, made))
            records += [_raw(record, len(rows) - 1) for record in made]
    return {
        "kind": "bench",
        "id": "20261129-120000-1",
        "started": "2026-11-29T12:00:00+00:00",
        "settings": {
            "url": "http://127.0.0.1:7860/v1",
            "models": list(COSTS),
            "prompt_tokens": "32",
            "output_tokens": "16:64",
            "requests": requests,
            "loads": loads or [*CLOSED, *OPEN],
            "seed": 0,
            "limits": {"ttft": 2.0, "tpot": 0.1, "e2e": None},
            "time_limit": 600,
            "warm_up": True,
            "shared_prefix_tokens": 0,
            "turns": 1,
        },
        "machine": {
            "cpu": "A <processor>",
            "cores": 2,
            "memory": 8 * 2**30,
            "device": "cpu",
            "bytes_per_s": SPEED.bytes_per_s,
            "flops_per_s": SPEED.flops_per_s,
            "dtype": "float32",
        },
        "versions": {"myserve_ui": "0.1.0", "torch": "2.13.0"},
        "rows": rows,
        "requests": records,
        "rooflines": {model: _roofline(cost) for model, cost in COSTS.items()},
    }


def _row(model: str, load: dict[str, Any], records: list[RequestRecord]) -> dict[str, Any]:
    precision = model.partition(":")[2] or "full"
    return {
        **summarise(records),
        "model": model,
        "precision": precision,
        "load": load,
        "roofline_share": 0.42,
        "server_ms": SERVER,
    }


def _records(generator: random.Random, load: dict[str, Any], *, slow: float, count: int) -> list[RequestRecord]:
    places = load.get("concurrency") or 4
    free = [0.0] * places
    made = []
    for index in range(count):
        arrival = min(free) if load["kind"] == "closed" else index / load["rate"]
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


def _raw(record: RequestRecord, row: int) -> dict[str, Any]:
    return {**asdict(record), "outcome": record.outcome.value, "chunk_times": list(record.chunk_times), "row": row}


def _roofline(cost: ModelCost) -> dict[str, Any]:
    return write_roofline(SPEED, cost, CARD_POINTS, weight_bytes=cost.bytes_per_step)
