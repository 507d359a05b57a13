"""The JSON document of a benchmark: what was asked, on what, every request's raw times, and the rows that follow."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from myserve_ui.bench.benchmark_request import BenchmarkRequest, NamedTarget
from myserve_ui.bench.client.records import Outcome, RequestRecord
from myserve_ui.bench.documents.rows import read_record
from myserve_ui.bench.loads import read_load, write_load
from myserve_ui.bench.workload import Workload
from myserve_ui.core.document_shape import FLAG, NUMBER, TEXT, Maybe, MayLack, check_shape, read_json
from myserve_ui.errors import InvalidRequestError

WAY_OUT = "Choose a JSON file that the benchmark saved."
MAX_BYTES = 256 * 2**20

PERCENTILES = Maybe({"p50": NUMBER, "p90": NUMBER, "p95": NUMBER, "p99": NUMBER, "mean": NUMBER, "n": NUMBER})
SHAPE: dict[str, Any] = {
    "kind": TEXT,
    "id": TEXT,
    "started": TEXT,
    "stopped": FLAG,
    "settings": {
        "url": TEXT,
        "models": [TEXT],
        "precisions": [TEXT],
        "targets": [{"url": TEXT, "model": TEXT, "precision": TEXT, "is_ours": FLAG, "has_key": FLAG}],
        "prompt_tokens": TEXT,
        "output_tokens": TEXT,
        "requests": NUMBER,
        "loads": [{"kind": TEXT}],
        "seed": NUMBER,
        "salt": MayLack(TEXT),
        "limits": {"ttft": Maybe(NUMBER), "tpot": Maybe(NUMBER), "e2e": Maybe(NUMBER)},
        "time_limit": NUMBER,
        "warm_up": FLAG,
        "shared_prefix_tokens": NUMBER,
        "turns": NUMBER,
    },
    "machine": {"bytes_per_s": Maybe(NUMBER), "flops_per_s": Maybe(NUMBER)},
    "versions": {},
    "rows": [
        {
            "cached_tokens": MayLack(NUMBER),
            "cached_share": MayLack(NUMBER),
            "precision": TEXT,
            "model": TEXT,
            "load": {"kind": TEXT},
            "requests": NUMBER,
            "completed": NUMBER,
            "failed": NUMBER,
            "rejected": NUMBER,
            "cancelled": NUMBER,
            "seconds": NUMBER,
            "output_throughput": NUMBER,
            "request_throughput": NUMBER,
            "goodput": NUMBER,
            "ttft_ms": PERCENTILES,
            "tpot_ms": PERCENTILES,
            "itl_ms": PERCENTILES,
            "e2e_ms": PERCENTILES,
            "errors": {},
            "roofline_share": Maybe(NUMBER),
        }
    ],
    "requests": [
        {
            "row": NUMBER,
            "index": NUMBER,
            "outcome": TEXT,
            "arrival": NUMBER,
            "sent": NUMBER,
            "first_token": Maybe(NUMBER),
            "last_token": Maybe(NUMBER),
            "end": NUMBER,
            "prompt_tokens": NUMBER,
            "cached_tokens": MayLack(NUMBER),
            "output_tokens": NUMBER,
            "chunk_times": [NUMBER],
            "error": Maybe(TEXT),
        }
    ],
    "rooflines": {},
}
"""What every reader may rely on; a document has more beside it."""


def begin_document(request: BenchmarkRequest, started: datetime) -> dict[str, Any]:
    """The document of a run that has no results yet."""
    return {
        "kind": "bench",
        "id": f"{started.astimezone(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}",
        "started": started.astimezone(UTC).isoformat(timespec="seconds"),
        "stopped": False,
        "settings": _settings(request),
    }


def read_document(data: bytes | str) -> dict[str, Any]:
    """A saved run. Raises InvalidRequestError that says what is wrong and names the place."""
    document = read_json(data, max_bytes=MAX_BYTES, way_out=WAY_OUT)
    if not isinstance(document, dict) or document.get("kind") != "bench":
        raise InvalidRequestError(f"The file is JSON, but no benchmark. {WAY_OUT}")
    check_shape(document, SHAPE, name="benchmark", way_out=WAY_OUT)
    for load in (*document["settings"]["loads"], *(row["load"] for row in document["rows"])):
        read_load(load)
    outcomes, rows = set(Outcome), range(len(document["rows"]))
    if not all(request["outcome"] in outcomes and request["row"] in rows for request in document["requests"]):
        raise InvalidRequestError(f"A request of the benchmark belongs to no row, or ended in no known way. {WAY_OUT}")
    return document


def records_of(document: Mapping[str, Any], row: int) -> list[RequestRecord]:
    """The raw records of one row."""
    return [read_record(request) for request in document["requests"] if request["row"] == row]


def _settings(request: BenchmarkRequest) -> dict[str, Any]:
    workload = request.workload
    return {
        "url": request.targets[0].target.url,
        "models": [named.target.model for named in request.targets],
        "precisions": [named.precision for named in request.targets],
        "targets": [_describe_target(named) for named in request.targets],
        "prompt_tokens": str(workload.prompt_tokens),
        "output_tokens": str(workload.output_tokens),
        "requests": workload.num_requests,
        "loads": [write_load(load) for load in request.loads],
        "seed": workload.seed,
        "salt": workload.salt,
        "limits": asdict(request.limits),
        "time_limit": request.time_limit,
        "warm_up": request.warm_up,
        "shared_prefix_tokens": workload.shared_prefix_tokens,
        "turns": workload.turns,
        "prompts": _describe_prompts(workload.prompts, request.prompts_from),
        "example": _example(workload, request),
    }


def _describe_target(named: NamedTarget) -> dict[str, Any]:
    """Whom it measured; of a key only that there was one."""
    return {
        "url": named.target.url,
        "model": named.target.model,
        "precision": named.precision,
        "is_ours": named.is_ours,
        "has_key": named.target.has_key,
    }


def _describe_prompts(prompts: Sequence[str], source: str) -> dict[str, Any] | None:
    if not prompts:
        return None
    digest = hashlib.sha256("\n".join(prompts).encode("utf-8", "surrogatepass")).hexdigest()
    return {"from": source, "count": len(prompts), "sha256": digest}


def _example(workload: Workload, request: BenchmarkRequest) -> dict[str, Any]:
    """The first request, as it can be sent again by hand."""
    return request.targets[0].target.body(workload.plan(request.loads[0])[0])
