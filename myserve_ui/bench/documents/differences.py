"""How differences of two rows are written down: b - a, with 95 % intervals."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from myserve_ui.bench.documents.rows import KeptLoad, RowName
from myserve_ui.documents import Document, Flag, Number, Part, Whole


class LatencyDifference(Part):
    """Milliseconds of b - a; no interval where one value cannot tell how values spread, or it is too large to keep."""

    mean: Number
    low: Number | None
    high: Number | None
    n: Whole
    """Pairs, or the requests of the smaller side."""
    is_paired: Flag
    is_clear: Flag
    """Whether the interval leaves out zero, and nothing else stands against it."""


class Latencies(Part):
    """None where a side has no such latency, or a difference is too large to be kept."""

    ttft_ms: LatencyDifference | None
    tpot_ms: LatencyDifference | None
    e2e_ms: LatencyDifference | None


class RatePair(Part):
    """Both rates, per second; `ratio` is b / a, None over nothing or next to nothing."""

    a: Number
    b: Number
    ratio: Number | None


class Rates(Part):
    output_throughput: RatePair
    request_throughput: RatePair
    goodput: RatePair


class ComparedRow(RowName):
    """Which row of its run stands on a side."""

    row: Whole


class CachedShares(Part):
    a: Number | None = None
    b: Number | None = None


class RowDifference(Part):
    """Two rows under one load."""

    load: KeptLoad
    a: ComparedRow
    b: ComparedRow
    cached_share: CachedShares = Field(default_factory=CachedShares)
    caution: str | None = None
    """Why the difference may be none of the servers; None if nothing is known against it."""
    latencies: Latencies
    rates: Rates


class Unmatched(Part):
    """Places of rows that have no counterpart."""

    a: tuple[Whole, ...]
    b: tuple[Whole, ...]


class RunComparison(Document):
    """The `bench_comparison` document of two runs."""

    NAME: ClassVar[str] = "comparison"

    kind: Literal["bench_comparison"] = "bench_comparison"
    a: str
    """Id of the run."""
    b: str
    is_paired: Flag
    rows: tuple[RowDifference, ...]
    unmatched: Unmatched
