"""The numbers of one run, from its requests' raw times. Percentiles are by nearest rank."""

from __future__ import annotations

import bisect
import itertools
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from myserve_ui.bench.client.records import Outcome, RequestRecord
from myserve_ui.errors import InvalidRequestError

SHARES = {"p50": 50, "p90": 90, "p95": 95, "p99": 99}
NUMBERS = re.compile(r"(?<!HTTP )(?<!\d)\d+(?:[.,]\d+)*")
MOST_ERRORS = 5
FEW = 100
"""A 99th percentile of fewer requests is one of the slowest, and is marked."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a request must meet to be good; seconds, None for no limit."""

    ttft: float | None = 0.5
    tpot: float | None = 0.03
    e2e: float | None = None


def interactive_limits() -> Limits:
    """What a person who waits for an answer wants: 500 ms and 30 ms."""
    return Limits(0.5, 0.03)


def server_limits() -> Limits:
    """What a busy server may take: 2 s and 100 ms."""
    return Limits(2.0, 0.1)


def parse_limits(text: str) -> Limits:
    """ "interactive", "server", or milliseconds of TTFT, TPOT and E2E: "500,30,-". Raises InvalidRequestError."""
    named = {"interactive": interactive_limits, "server": server_limits}
    if text in named:
        return named[text]()
    try:
        values = [None if word.strip() in ("-", "") else float(word) / 1000 for word in text.split(",")]
    except ValueError:
        values = []
    if not 1 <= len(values) <= 3 or not all(value is None or 0 < value < math.inf for value in values):
        raise InvalidRequestError(
            f"limits are interactive, server, or milliseconds such as 500,30,- ; got {text[:40]!r}.", param="limits"
        )
    return Limits(*[*values, None, None, None][:3])


def write_limits(limits: Mapping[str, float | None]) -> str:
    """As `parse_limits` reads them."""
    for name, known in (("server", server_limits()), ("interactive", interactive_limits())):
        if asdict(known) == dict(limits):
            return name
    return ",".join("-" if (value := limits.get(n)) is None else f"{1000 * value:g}" for n in ("ttft", "tpot", "e2e"))


def percentiles_ms(values: Sequence[float]) -> dict[str, float | int | bool] | None:
    """p50 to p99 in milliseconds with n and the mean; None of nothing."""
    return counted_percentiles_ms([(value, 1) for value in values])


def counted_percentiles_ms(values: Iterable[tuple[float, int]]) -> dict[str, float | int | bool] | None:
    """The same of (value, how often it happened): what a server counts takes no memory here.

    A percentile is the smallest value that at least so many % of them do not exceed: a number that happened.
    """
    ranked = sorted(values)
    ends = list(itertools.accumulate(count for _, count in ranked))
    if not ends:
        return None
    number = ends[-1]
    found: dict[str, float | int | bool] = {
        name: 1000 * ranked[bisect.bisect_left(ends, -(-number * percent // 100))][0]
        for name, percent in SHARES.items()
    }
    mean = 1000 * math.fsum(value * count for value, count in ranked) / number
    return found | {"mean": mean, "n": number, "p99_is_rough": number < FEW}


def summarise(records: Sequence[RequestRecord], limits: Limits | None = None) -> dict[str, object]:
    """One row of results. Failed, rejected and cancelled requests are counted and in no latency."""
    limits = limits or server_limits()
    completed = [record for record in records if record.outcome is Outcome.COMPLETED]
    outcomes = Counter(record.outcome for record in records)
    seconds = _duration(records)
    output_tokens = sum(record.output_tokens for record in completed)
    prompt_tokens = sum(record.prompt_tokens for record in completed)
    return {
        "requests": len(records),
        **{outcome.value: outcomes[outcome] for outcome in Outcome},
        "seconds": seconds,
        "decoding": _mean_decoding(completed, seconds),
        "output_tokens": output_tokens,
        "prompt_tokens": prompt_tokens,
        **_cached(completed),
        "output_throughput": _rate(output_tokens, seconds),
        "total_throughput": _rate(output_tokens + prompt_tokens, seconds),
        "request_throughput": _rate(len(completed), seconds),
        "goodput": _rate(sum(is_good(record, limits) for record in completed), seconds),
        "ttft_ms": percentiles_ms([record.ttft for record in completed if record.ttft is not None]),
        "tpot_ms": percentiles_ms([record.tpot for record in completed if record.tpot is not None]),
        "itl_ms": counted_percentiles_ms(gap for record in completed for gap in record.token_gaps),
        "e2e_ms": percentiles_ms([record.e2e for record in completed]),
        "e2e_from_arrival_ms": percentiles_ms([record.e2e_from_arrival for record in completed]),
        "errors": count_errors([record.error for record in records if record.error]),
    }


def _cached(completed: Sequence[RequestRecord]) -> dict[str, float | int | None]:
    """Prompt tokens that were in the server's cache, of the answers for which it says so; None where it never does."""
    told = [(record.cached_tokens, record.prompt_tokens) for record in completed if record.cached_tokens is not None]
    cached, prompt = sum(cached for cached, _ in told), sum(prompt for _, prompt in told)
    return {"cached_tokens": cached if told else None, "cached_share": cached / prompt if prompt else None}


def count_errors(errors: Sequence[str]) -> dict[str, int]:
    """The most frequent errors; those that differ by numbers alone, but for the HTTP status, are one: the first."""
    examples: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for error in errors:
        kind = NUMBERS.sub("#", error)
        examples.setdefault(kind, error)
        counts[kind] += 1
    return {examples[kind]: number for kind, number in counts.most_common(MOST_ERRORS)}


def is_good(record: RequestRecord, limits: Limits) -> bool:
    """True if a completed request met every limit. A single token has no TPOT to miss."""
    pairs = ((record.ttft, limits.ttft), (record.tpot, limits.tpot), (record.e2e, limits.e2e))
    return all(limit is None or value is None or value <= limit for value, limit in pairs)


def _duration(records: Sequence[RequestRecord]) -> float:
    """From the first send to the last end."""
    return max(record.end for record in records) - min(record.sent for record in records) if records else 0.0


def _mean_decoding(completed: Sequence[RequestRecord], seconds: float) -> float:
    """Answers that were being written at a time, on average."""
    return sum(record.e2e - (record.ttft or 0.0) for record in completed) / seconds if seconds > 0 else 0.0


def _rate(count: int, seconds: float) -> float:
    return count / seconds if seconds > 0 else 0.0
