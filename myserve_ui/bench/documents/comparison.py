"""Lays two runs, or two models of one run, side by side: differences of every latency with 95 % intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from myserve_ui.bench.client.records import Outcome, RequestRecord
from myserve_ui.bench.documents.document import records_of
from myserve_ui.bench.documents.row_words import cached_words
from myserve_ui.core.intervals import Difference, paired_difference, unpaired_difference
from myserve_ui.errors import InvalidRequestError

LATENCIES: tuple[tuple[str, Callable[[RequestRecord], float | None]], ...] = (
    ("ttft_ms", lambda record: record.ttft),
    ("tpot_ms", lambda record: record.tpot),
    ("e2e_ms", lambda record: record.e2e),
)
RATES = ("output_throughput", "request_throughput", "goodput")
SAME_WORK = ("prompt_tokens", "output_tokens", "requests", "seed", "shared_prefix_tokens", "turns", "prompts")
"""Settings that make two runs ask the same of a server, request by request."""

CACHED_APART = 0.1
"""Shares of cached prompt tokens that differ by more make a difference of their own."""


def compare_runs(a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, Any]:
    """The `bench_comparison` document of two runs: b - a for every pair of rows under one load.

    Rows match by load and precision; where the runs share no precision, by their place among the rows of that load.
    Differences are paired, request by request, if both runs asked the same. Raises InvalidRequestError if no row
    matches.
    """
    is_paired = _asked_the_same(a, b)
    pairs = list(_matching_rows(a["rows"], b["rows"]))
    if not pairs:
        raise InvalidRequestError("The two runs have no load in common, so there is nothing to compare.")
    rows = [_compare(a, b, places, is_paired=is_paired) for places in pairs]
    return {
        "kind": "bench_comparison",
        "a": a["id"],
        "b": b["id"],
        "is_paired": is_paired,
        "rows": rows,
        "unmatched": {
            "a": [row for row in range(len(a["rows"])) if row not in {left for left, _ in pairs}],
            "b": [row for row in range(len(b["rows"])) if row not in {right for _, right in pairs}],
        },
    }


def compare_rows_within(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Within one run: every further model against the first one, load by load, paired."""
    rows, settings = document["rows"], document["settings"]
    first = settings["precisions"][0], settings["models"][0]
    bases = [place for place, row in enumerate(rows) if _key(row) == first]
    pairs = [
        (base, place)
        for place, row in enumerate(rows)
        for base in bases
        if _key(row) != first and row["load"] == rows[base]["load"]
    ]
    return [_compare(document, document, places, is_paired=True) for places in pairs]


def _asked_the_same(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    return all(a["settings"].get(name) == b["settings"].get(name) for name in SAME_WORK)


def _matching_rows(a: Sequence[Any], b: Sequence[Any]) -> Iterator[tuple[int, int]]:
    """Places of rows that belong together."""
    by_precision = bool({row["precision"] for row in a} & {row["precision"] for row in b})
    taken: set[int] = set()
    for left, row in enumerate(a):
        for right, other in enumerate(b):
            is_same = row["load"] == other["load"] and (not by_precision or row["precision"] == other["precision"])
            if is_same and right not in taken:
                taken.add(right)
                yield left, right
                break


def _compare(a: Mapping[str, Any], b: Mapping[str, Any], places: tuple[int, int], *, is_paired: bool) -> dict[str, Any]:
    left, right = places
    first, second = a["rows"][left], b["rows"][right]
    latencies = compare_records(records_of(a, left), records_of(b, right), is_paired=is_paired)
    if is_cached_apart(first, second):
        latencies = {name: found and found | {"is_clear": False} for name, found in latencies.items()}
    return {
        "load": first["load"],
        "a": {"row": left, "precision": first["precision"], "model": first["model"]},
        "b": {"row": right, "precision": second["precision"], "model": second["model"]},
        "cached_share": {"a": first.get("cached_share"), "b": second.get("cached_share")},
        "caution": _caution(first, second, is_salted=_is_salted(a) and _is_salted(b)),
        "latencies": latencies,
        "rates": {name: _rates(first[name], second[name]) for name in RATES},
    }


def is_cached_apart(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    """Whether one of two rows found so much more of its prompts in a cache that they did not do the same work."""
    first, second = a.get("cached_share"), b.get("cached_share")
    return first is not None and second is not None and abs(first - second) > CACHED_APART


def _caution(a: Mapping[str, Any], b: Mapping[str, Any], *, is_salted: bool) -> str | None:
    """Why a difference of two rows may be none of the servers; None if nothing is known against it."""
    words = f"{cached_words(a.get('cached_share'))} in a, {cached_words(b.get('cached_share'))} in b"
    if is_cached_apart(a, b):
        return f"{words}: they did not compute the same, so no difference of their times is called clear."
    if not is_salted and None in (a.get("cached_share"), b.get("cached_share")):
        return f"{words}, and prompts without a salt: the later one may have found those of the earlier in a cache."
    return None


def _is_salted(document: Mapping[str, Any]) -> bool:
    return bool(document["settings"].get("salt"))


def compare_records(
    a: Sequence[RequestRecord], b: Sequence[RequestRecord], *, is_paired: bool
) -> dict[str, dict[str, Any] | None]:
    """Milliseconds of b - a for each latency; paired, only of requests that both sides completed."""
    found: dict[str, dict[str, Any] | None] = {}
    for name, latency in LATENCIES:
        left, right = (
            {r.index: value for r in side if (value := _completed(r, latency)) is not None} for side in (a, b)
        )
        if is_paired:
            both = sorted(left.keys() & right.keys())
            difference = paired_difference([left[i] for i in both], [right[i] for i in both])
        else:
            difference = unpaired_difference(list(left.values()), list(right.values()))
        found[name] = _write(difference, is_paired=is_paired)
    return found


def _completed(record: RequestRecord, latency: Callable[[RequestRecord], float | None]) -> float | None:
    """In milliseconds."""
    value = latency(record) if record.outcome is Outcome.COMPLETED else None
    return None if value is None else 1000 * value


def _write(difference: Difference | None, *, is_paired: bool) -> dict[str, Any] | None:
    if difference is None:
        return None
    low, high = difference.low, difference.high
    is_clear = low is not None and high is not None and (low > 0 or high < 0)
    return {"mean": difference.mean, "low": low, "high": high, "n": difference.n, "is_paired": is_paired} | {
        "is_clear": is_clear
    }


def _rates(a: float, b: float) -> dict[str, float | None]:
    return {"a": a, "b": b, "ratio": b / a if a else None}


def _key(row: Mapping[str, Any]) -> tuple[str, str]:
    return row["precision"], row["model"]
