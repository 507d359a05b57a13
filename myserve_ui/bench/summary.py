"""The numbers of one run, from its requests' raw times. Percentiles are by nearest rank."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence

from myserve_ui.bench.client.records import Outcome, RequestRecord
from myserve_ui.bench.limits import Limits, server_limits
from myserve_ui.core.percentiles import nearest_ranks
from myserve_ui.documents import Flag, Number, Part, Whole

SHARES = (500, 900, 950, 990)
NUMBERS = re.compile(r"(?<!HTTP )(?<!\d)\d+(?:[.,]\d+)*")
MOST_ERRORS = 5
FEW = 100
"""A 99th percentile of fewer requests is one of the slowest, and is marked."""


class Percentiles(Part):
    """Of one latency, in milliseconds, by nearest rank."""

    p50: Number
    p90: Number
    p95: Number
    p99: Number
    mean: Number
    n: Whole
    p99_is_rough: Flag = False
    """Whether it is of so few that it is one of the slowest."""


class Summary(Part):
    """The numbers of one run. Rates are per second; what older runs did not tell has a default."""

    requests: Whole
    completed: Whole
    rejected: Whole
    failed: Whole
    cancelled: Whole
    seconds: Number
    decoding: Number = 0.0
    """Answers that were being written at a time, on average."""
    output_tokens: Whole = 0
    prompt_tokens: Whole = 0
    cached_tokens: Whole | None = None
    """Of the prompts', where the server says so."""
    cached_share: Number | None = None
    output_throughput: Number
    total_throughput: Number = 0.0
    request_throughput: Number
    goodput: Number
    """Requests that met every limit."""
    ttft_ms: Percentiles | None
    tpot_ms: Percentiles | None
    itl_ms: Percentiles | None
    e2e_ms: Percentiles | None
    e2e_from_arrival_ms: Percentiles | None = None
    errors: dict[str, Whole]
    """What was said, and how often."""


def percentiles_ms(values: Sequence[float]) -> Percentiles | None:
    """p50 to p99 in milliseconds with n and the mean; None of nothing."""
    return counted_percentiles_ms([(value, 1) for value in values])


def counted_percentiles_ms(values: Iterable[tuple[float, int]]) -> Percentiles | None:
    """The same of (value, how often it happened): what a server counts takes no memory here."""
    counted = sorted(values)
    if not counted:
        return None
    number = sum(count for _, count in counted)
    p50, p90, p95, p99 = (1000 * value for value in nearest_ranks(counted, SHARES))
    mean = 1000 * math.fsum(value * count for value, count in counted) / number
    return Percentiles(p50=p50, p90=p90, p95=p95, p99=p99, mean=mean, n=number, p99_is_rough=number < FEW)


def summarise(records: Sequence[RequestRecord], limits: Limits | None = None) -> Summary:
    """The numbers of `records`. Failed, rejected and cancelled requests are counted and in no latency."""
    limits = limits or server_limits()
    completed = [record for record in records if record.outcome is Outcome.COMPLETED]
    outcomes = Counter(record.outcome for record in records)
    seconds = _duration(records)
    output_tokens = sum(record.output_tokens for record in completed)
    prompt_tokens = sum(record.prompt_tokens for record in completed)
    cached_tokens, cached_share = _cached(completed)
    return Summary(
        requests=len(records),
        completed=len(completed),
        rejected=outcomes[Outcome.REJECTED],
        failed=outcomes[Outcome.FAILED],
        cancelled=outcomes[Outcome.CANCELLED],
        seconds=seconds,
        decoding=_mean_decoding(completed, seconds),
        output_tokens=output_tokens,
        prompt_tokens=prompt_tokens,
        cached_tokens=cached_tokens,
        cached_share=cached_share,
        output_throughput=_rate(output_tokens, seconds),
        total_throughput=_rate(output_tokens + prompt_tokens, seconds),
        request_throughput=_rate(len(completed), seconds),
        goodput=_rate(sum(is_good(record, limits) for record in completed), seconds),
        ttft_ms=percentiles_ms([record.ttft for record in completed if record.ttft is not None]),
        tpot_ms=percentiles_ms([record.tpot for record in completed if record.tpot is not None]),
        itl_ms=counted_percentiles_ms(gap for record in completed for gap in record.token_gaps),
        e2e_ms=percentiles_ms([record.e2e for record in completed]),
        e2e_from_arrival_ms=percentiles_ms([record.e2e_from_arrival for record in completed]),
        errors=count_errors([record.error for record in records if record.error]),
    )


def _cached(completed: Sequence[RequestRecord]) -> tuple[int | None, float | None]:
    """Prompt tokens in the server's cache and their share, of the answers for which it tells; None if it never does."""
    told = [(record.cached_tokens, record.prompt_tokens) for record in completed if record.cached_tokens is not None]
    cached, prompt = sum(cached for cached, _ in told), sum(prompt for _, prompt in told)
    return cached if told else None, cached / prompt if prompt else None


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
