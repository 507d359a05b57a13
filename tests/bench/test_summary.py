"""Latencies and percentiles against numbers worked out by hand."""

import pytest

from myserve_ui.bench.client.records import Outcome, RequestRecord, share_out
from myserve_ui.bench.limits import Limits
from myserve_ui.bench.summary import count_errors, is_good, percentiles_ms, summarise


def record(index=0, *, sent=10.0, chunks=(11.0, 11.5, 12.0), end=12.0, outcome=Outcome.COMPLETED, tokens=3, **fields):
    first = chunks[0] if chunks else None
    return RequestRecord(
        index,
        fields.pop("arrival", sent),
        sent,
        outcome,
        end,
        first_token=first,
        prompt_tokens=20,
        output_tokens=tokens,
        chunk_times=chunks,
        **fields,
    )


def latencies(record):
    """Gaps between tokens, one number for each."""
    return [gap for gap, number in record.token_gaps for _ in range(number)]


def test_latencies_by_hand():
    one = record(arrival=9.0)
    assert (one.ttft, one.e2e, one.e2e_from_arrival, one.tpot) == (1.0, 2.0, 3.0, 0.5)
    assert latencies(one) == [0.5, 0.5]


def test_a_single_token_has_neither_tpot_nor_gaps():
    one = record(chunks=(11.0,), tokens=1)
    assert (one.tpot, latencies(one)) == (None, [])


def test_chunks_of_four_tokens_give_as_many_gaps_as_tokens():
    ones = record(chunks=tuple(10 + 0.1 * i for i in range(13)), tokens=13)
    fours = record(chunks=(10.0, 10.4, 10.8, 11.2), tokens=13)
    assert len(latencies(fours)) == len(latencies(ones)) == 12
    assert latencies(fours) == pytest.approx(latencies(ones))


def test_sharing_out_keeps_the_total():
    gaps = share_out([1.0, 2.0, 3.0], 10)
    assert sum(count for _, count in gaps) == 10
    assert sum(gap * count for gap, count in gaps) == pytest.approx(6.0)
    assert share_out([1.0, 2.0, 3.0], 2) == [(1.0, 1), (2.0, 1), (3.0, 1)]


def test_a_million_tokens_of_two_chunks_are_two_numbers():
    one = record(chunks=(11.0, 12.0), tokens=1_000_001)
    assert one.token_gaps == [(pytest.approx(1e-6), 1_000_000)]
    assert summarise([one]).itl_ms.n == 1_000_000


@pytest.mark.parametrize(
    ("values", "name", "expected"),
    [
        ([5], "p50", 5),
        ([1, 2, 3, 4], "p50", 2),
        ([4, 3, 1, 2], "p90", 4),
        (range(1, 101), "p99", 99),
        (range(1, 101), "p95", 95),
    ],
)
def test_percentiles_are_by_nearest_rank(values, name, expected):
    assert getattr(percentiles_ms([value / 1000 for value in values]), name) == pytest.approx(expected)


def test_percentiles_rise_and_say_how_many():
    numbers = percentiles_ms([0.3, 0.1, 0.2])
    assert numbers.p50 <= numbers.p90 <= numbers.p95 <= numbers.p99 == pytest.approx(300)
    assert (numbers.n, numbers.p99_is_rough) == (3, True)
    assert percentiles_ms([]) is None


def test_a_row_counts_failures_apart():
    records = [
        record(0),
        record(1, sent=10.5, chunks=(12.5, 13.0), end=14.0, tokens=5),
        record(2, sent=10.0, chunks=(), end=99.0, outcome=Outcome.FAILED, tokens=0, error="HTTP 500: boom"),
        record(3, sent=10.0, chunks=(), end=10.1, outcome=Outcome.REJECTED, tokens=0, error="HTTP 429: full"),
        record(4, sent=10.0, chunks=(), end=10.1, outcome=Outcome.CANCELLED, tokens=0),
    ]
    row = summarise(records, Limits(ttft=1.5, tpot=None))
    assert [row.requests, row.completed, row.failed, row.rejected, row.cancelled] == [5, 2, 1, 1, 1]
    assert row.seconds == 89.0
    assert row.output_throughput == pytest.approx(8 / 89)
    assert row.total_throughput == pytest.approx(48 / 89)
    assert row.goodput == pytest.approx(1 / 89)
    assert row.ttft_ms.n == 2
    assert row.errors == {"HTTP 500: boom": 1, "HTTP 429: full": 1}


def test_errors_that_differ_by_numbers_are_counted_together_and_statuses_apart():
    long = [f"HTTP 400: The prompt has {number} tokens, over 8192." for number in ("33006", "33,007", "9")]
    assert count_errors([*long, "HTTP 400: full", "HTTP 503: full"]) == {
        long[0]: 3,
        "HTTP 400: full": 1,
        "HTTP 503: full": 1,
    }


def test_goodput_asks_for_every_limit():
    assert is_good(record(), Limits(ttft=1.0, tpot=0.5, e2e=2.0))
    assert not is_good(record(), Limits(ttft=0.9, tpot=None))
    assert not is_good(record(), Limits(ttft=None, tpot=0.4))
    assert is_good(record(chunks=(10.1,), tokens=1), Limits(ttft=0.5, tpot=0.0))


def test_nothing_completed_is_a_row_too():
    row = summarise([record(chunks=(), outcome=Outcome.FAILED, tokens=0, error="x")])
    assert (row.completed, row.ttft_ms, row.output_throughput) == (0, None, 0)
    assert summarise([]).seconds == 0
