"""One row of results: a model under a load, with its raw records in the time of the row's own start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from myserve_ui.bench.client.records import Outcome, RequestRecord
from myserve_ui.bench.loads import ClosedLoop, Load, OpenLoop, write_load
from myserve_ui.bench.roofline.roofline import ModelRoofline
from myserve_ui.bench.summary import Limits, summarise

DIGITS = 6
"""Times are kept to the microsecond."""


def relative_records(records: Sequence[RequestRecord]) -> tuple[RequestRecord, ...]:
    """`records` with seconds since the first of them was due."""
    start = min((min(record.arrival, record.sent) for record in records), default=0.0)

    def moved(time: float) -> float:
        return round(time - start, DIGITS)

    return tuple(
        replace(
            record,
            arrival=moved(record.arrival),
            sent=moved(record.sent),
            end=moved(record.end),
            first_token=None if record.first_token is None else moved(record.first_token),
            last_token=None if record.last_token is None else moved(record.last_token),
            chunk_times=tuple(map(moved, record.chunk_times)),
            text="",
        )
        for record in records
    )


def make_row(
    records: Sequence[RequestRecord], load: Load, limits: Limits, *, roofline: ModelRoofline | None = None
) -> dict[str, Any]:
    """The row of relative `records`, with its load and how near it came to the roofline."""
    row: dict[str, Any] = summarise(records, limits) | {"load": write_load(load)}
    if isinstance(load, ClosedLoop):
        row["concurrency"] = load.concurrency
    elif isinstance(load, OpenLoop):
        row["rate"] = load.rate
    return row | {"roofline_share": roofline.share_reached(row) if roofline else None}


def write_record(record: RequestRecord, row: int) -> dict[str, Any]:
    """A record as JSON; the answer's text is not kept."""
    return {
        "row": row,
        "index": record.index,
        "outcome": record.outcome.value,
        "arrival": record.arrival,
        "sent": record.sent,
        "first_token": record.first_token,
        "last_token": record.last_token,
        "end": record.end,
        "prompt_tokens": record.prompt_tokens,
        "cached_tokens": record.cached_tokens,
        "output_tokens": record.output_tokens,
        "chunk_times": list(record.chunk_times),
        "error": record.error,
    }


def read_record(document: dict[str, Any]) -> RequestRecord:
    """What `write_record` wrote."""
    return RequestRecord(
        index=document["index"],
        arrival=document["arrival"],
        sent=document["sent"],
        outcome=Outcome(document["outcome"]),
        end=document["end"],
        first_token=document["first_token"],
        last_token=document["last_token"],
        prompt_tokens=document["prompt_tokens"],
        cached_tokens=document.get("cached_tokens"),
        output_tokens=document["output_tokens"],
        chunk_times=tuple(document["chunk_times"]),
        error=document["error"],
    )
