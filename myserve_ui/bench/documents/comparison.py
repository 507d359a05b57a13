"""Lays two runs, or two models of one run, side by side: differences of every latency with 95 % intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from myserve_ui.bench.client.records import Outcome, RequestRecord
from myserve_ui.bench.documents.differences import (
    CachedShares,
    ComparedRow,
    Latencies,
    LatencyDifference,
    RatePair,
    Rates,
    RowDifference,
    RunComparison,
    Unmatched,
)
from myserve_ui.bench.documents.intervals import Difference, paired_difference, unpaired_difference
from myserve_ui.bench.documents.row_words import cached_words
from myserve_ui.bench.documents.rows import Row
from myserve_ui.bench.documents.run import BenchmarkRun
from myserve_ui.documents import if_kept
from myserve_ui.errors import InvalidRequestError

SAME_WORK = ("prompt_tokens", "output_tokens", "requests", "seed", "shared_prefix_tokens", "turns", "prompts")
"""Settings that make two runs ask the same of a server, request by request."""

CACHED_APART = 0.1
"""Shares of cached prompt tokens that differ by more make a difference of their own."""
Latency = Callable[[RequestRecord], float | None]


def compare_runs(a: BenchmarkRun, b: BenchmarkRun) -> RunComparison:
    """b - a for every pair of rows under one load.

    Rows match by load, model and precision; where the runs share no model or no precision, without it, and at last by
    their place among the rows of that load.
    Differences are paired, request by request, if both runs asked the same. Raises InvalidRequestError if no row
    matches.
    """
    is_paired = all(getattr(a.settings, name) == getattr(b.settings, name) for name in SAME_WORK)
    pairs = list(_matching_rows(a.rows, b.rows))
    if not pairs:
        raise InvalidRequestError("The two runs have no load in common, so there is nothing to compare.")
    lefts, rights = ({pair[side] for pair in pairs} for side in (0, 1))
    return RunComparison(
        a=a.id,
        b=b.id,
        is_paired=is_paired,
        rows=tuple(_compare(a, b, places, is_paired=is_paired) for places in pairs),
        unmatched=Unmatched(
            a=tuple(row for row in range(len(a.rows)) if row not in lefts),
            b=tuple(row for row in range(len(b.rows)) if row not in rights),
        ),
    )


def compare_rows_within(run: BenchmarkRun) -> tuple[RowDifference, ...]:
    """Within one run: every further model against the first one, load by load, paired."""
    first = run.settings.precisions[0], run.settings.models[0]
    bases = [place for place, row in enumerate(run.rows) if (row.precision, row.model) == first]
    return tuple(
        _compare(run, run, (base, place), is_paired=True)
        for place, row in enumerate(run.rows)
        for base in bases
        if (row.precision, row.model) != first and row.load == run.rows[base].load
    )


def _matching_rows(a: Sequence[Row], b: Sequence[Row]) -> Iterator[tuple[int, int]]:
    """Places of rows that belong together."""
    by_model = bool({row.model for row in a} & {row.model for row in b})
    by_precision = bool({row.precision for row in a} & {row.precision for row in b})
    taken: set[int] = set()
    for left, row in enumerate(a):
        for right, other in enumerate(b):
            is_same = row.load == other.load and (not by_precision or row.precision == other.precision)
            if is_same and (not by_model or row.model == other.model) and right not in taken:
                taken.add(right)
                yield left, right
                break


def _compare(a: BenchmarkRun, b: BenchmarkRun, places: tuple[int, int], *, is_paired: bool) -> RowDifference:
    left, right = places
    first, second = a.rows[left], b.rows[right]
    is_fair = not is_cached_apart(first, second)
    records = a.records_of(left), b.records_of(right)
    return RowDifference(
        load=first.load,
        a=ComparedRow(row=left, precision=first.precision, model=first.model),
        b=ComparedRow(row=right, precision=second.precision, model=second.model),
        cached_share=CachedShares(a=first.cached_share, b=second.cached_share),
        caution=_caution(first, second, is_salted=bool(a.settings.salt and b.settings.salt)),
        latencies=compare_records(*records, is_paired=is_paired, is_fair=is_fair),
        rates=Rates(
            output_throughput=_rates(first.output_throughput, second.output_throughput),
            request_throughput=_rates(first.request_throughput, second.request_throughput),
            goodput=_rates(first.goodput, second.goodput),
        ),
    )


def is_cached_apart(a: Row, b: Row) -> bool:
    """Whether one of two rows found so much more of its prompts in a cache that they did not do the same work."""
    first, second = a.cached_share, b.cached_share
    return first is not None and second is not None and abs(first - second) > CACHED_APART


def _caution(a: Row, b: Row, *, is_salted: bool) -> str | None:
    """Why a difference of two rows may be none of the servers; None if nothing is known against it."""
    words = f"{cached_words(a.cached_share)} in a, {cached_words(b.cached_share)} in b"
    if is_cached_apart(a, b):
        return f"{words}: they did not compute the same, so no difference of their times is called clear."
    if not is_salted and None in (a.cached_share, b.cached_share):
        return f"{words}, and prompts without a salt: the later one may have found those of the earlier in a cache."
    return None


def compare_records(
    a: Sequence[RequestRecord], b: Sequence[RequestRecord], *, is_paired: bool, is_fair: bool = True
) -> Latencies:
    """Milliseconds of b - a for each latency; paired, only of requests that both sides completed.

    Where the sides did not do the same work (`is_fair` is False), no difference is called clear.
    """

    def compare(latency: Latency) -> LatencyDifference | None:
        left, right = _times(a, latency), _times(b, latency)
        both = sorted(left.keys() & right.keys())
        try:
            if is_paired:
                found = paired_difference([left[i] for i in both], [right[i] for i in both])
            else:
                found = unpaired_difference(list(left.values()), list(right.values()))
        except OverflowError:  # times that a file may hold, but whose squares no float does
            return None
        return None if found is None else _written(found, is_paired=is_paired, is_fair=is_fair)

    return Latencies(
        ttft_ms=compare(lambda record: record.ttft),
        tpot_ms=compare(lambda record: record.tpot),
        e2e_ms=compare(lambda record: record.e2e),
    )


def _times(records: Sequence[RequestRecord], latency: Latency) -> dict[int, float]:
    """Milliseconds by the request's number, of those that were completed."""
    completed = (record for record in records if record.outcome is Outcome.COMPLETED)
    return {record.index: 1000 * value for record in completed if (value := latency(record)) is not None}


def _written(found: Difference, *, is_paired: bool, is_fair: bool) -> LatencyDifference | None:
    """None for a mean that is too large to be kept."""
    if (mean := if_kept(found.mean)) is None:
        return None
    low, high = if_kept(found.low), if_kept(found.high)
    if low is None or high is None:
        low = high = None
    is_clear = is_fair and low is not None and high is not None and (low > 0 or high < 0)
    return LatencyDifference(mean=mean, low=low, high=high, n=found.n, is_paired=is_paired, is_clear=is_clear)


def _rates(a: float, b: float) -> RatePair:
    return RatePair(a=a, b=b, ratio=if_kept(b / a) if a else None)
