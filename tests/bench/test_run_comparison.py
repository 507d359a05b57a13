"""Two runs side by side: rows that belong together, request by request where both asked the same."""

import json

import pytest

from myserve_ui.bench.client.client import Target
from myserve_ui.bench.client.records import Outcome, RequestRecord
from myserve_ui.bench.documents.comparison import compare_runs
from myserve_ui.bench.documents.differences import CachedShares, RunComparison
from myserve_ui.bench.documents.run import BenchmarkRun
from myserve_ui.bench.loads import ClosedLoop
from myserve_ui.bench.question.question import NamedTarget
from myserve_ui.bench.workload import Workload
from myserve_ui.errors import InvalidRequestError
from tests.bench.made_runs import make_request, make_run, with_rows

TTFTS = (0.1, 1.0, 10.0)


def record(index, ttft, outcome=Outcome.COMPLETED):
    return RequestRecord(
        index, 0.0, 0.0, outcome, ttft + 1.0, first_token=ttft, output_tokens=2, chunk_times=(ttft, ttft + 1.0)
    )


def run(ttfts=TTFTS, *, precisions=("full",), concurrencies=(1,), seed=0, failed=()):
    loads = tuple(map(ClosedLoop, concurrencies))
    targets = tuple(NamedTarget(Target("http://s/v1", name), name) for name in precisions)
    outcomes = [Outcome.FAILED if index in failed else Outcome.COMPLETED for index in range(len(ttfts))]
    records = [record(index, ttft, outcomes[index]) for index, ttft in enumerate(ttfts)]
    return make_run(make_request(targets, Workload(len(ttfts), seed=seed), loads), records)


def test_equal_questions_are_compared_request_by_request():
    comparison = compare_runs(run(), run(tuple(ttft + 0.05 for ttft in TTFTS)))
    difference = comparison.rows[0].latencies.ttft_ms
    assert comparison.is_paired
    assert (difference.mean, difference.low, difference.high) == pytest.approx((50, 50, 50))
    assert difference.is_clear


def test_other_questions_are_compared_as_groups():
    comparison = compare_runs(run(), run(tuple(ttft + 0.05 for ttft in TTFTS), seed=7))
    difference = comparison.rows[0].latencies.ttft_ms
    assert not comparison.is_paired
    assert difference.low < 0 < difference.high and not difference.is_clear
    assert difference.mean == pytest.approx(50)


def test_only_what_both_sides_completed_is_paired():
    comparison = compare_runs(run(failed=(0,)), run(failed=(2,)))
    assert comparison.rows[0].latencies.e2e_ms.n == 1


def test_rows_match_by_load_and_precision_whatever_their_order():
    comparison = compare_runs(run(precisions=("full", "nf4")), run(precisions=("nf4", "full"), concurrencies=(1, 2)))
    assert [(row.a.precision, row.b.precision) for row in comparison.rows] == [
        ("full", "full"),
        ("nf4", "nf4"),
    ]
    assert (comparison.unmatched.a, comparison.unmatched.b) == ((), (2, 3))


def test_runs_of_other_precisions_match_by_their_place():
    comparison = compare_runs(run(), run(precisions=("int4",)))
    assert [(row.a.precision, row.b.precision) for row in comparison.rows] == [("full", "int4")]


def test_rates_are_compared_as_ratios():
    rates = compare_runs(run(), run()).rows[0].rates
    assert rates.output_throughput.ratio == pytest.approx(1.0)
    assert rates.goodput.ratio is None  # none of these requests met the limits


def test_runs_with_nothing_in_common_are_refused():
    with pytest.raises(InvalidRequestError, match="no load in common"):
        compare_runs(run(), run(concurrencies=(3,)))


def cached(document, share, *, salt="x"):
    settings = document.settings.model_copy(update={"salt": salt})
    return with_rows(document, cached_share=share).model_copy(update={"settings": settings})


FASTER = tuple(ttft / 2 for ttft in TTFTS)


def test_a_run_that_found_its_prompts_cached_is_not_called_faster():
    (row,) = compare_runs(cached(run(), 0.19), cached(run(tuple(t - 0.05 for t in TTFTS)), 0.99)).rows
    assert not any(found.is_clear for _, found in row.latencies if found)
    assert row.caution.startswith("19 % of the prompt tokens cached in a, 99 % of the prompt tokens cached in b")
    assert row.cached_share == CachedShares(a=0.19, b=0.99)


def test_runs_with_the_same_share_cached_are_compared_as_they_are():
    (row,) = compare_runs(cached(run(), 0.19), cached(run(tuple(t - 0.05 for t in TTFTS)), 0.25)).rows
    assert row.latencies.ttft_ms.is_clear and row.caution is None


@pytest.mark.parametrize(("salt", "is_told"), [("x", False), ("", True), (None, True)])
def test_what_is_not_known_of_a_cache_is_told_unless_both_runs_have_a_salt(salt, is_told):
    (row,) = compare_runs(cached(run(), None), cached(run(FASTER), 0.2, salt=salt)).rows
    assert bool(row.caution) is is_told


def test_rows_of_two_models_in_one_precision_match_by_model():
    one, other = (
        make_run(
            make_request(
                [NamedTarget(Target("http://s/v1", model), "full") for model in models], Workload(1), (ClosedLoop(1),)
            ),
            [record(0, 0.1)],
        )
        for models in (("big", "small"), ("small", "big"))
    )
    assert [(row.a.model, row.b.model) for row in compare_runs(one, other).rows] == [("big", "big"), ("small", "small")]


def changed(document, *, rows=None, requests=None):
    """`document` as a file holds it whose first row and requests say something else."""
    value = document.as_json()
    value["rows"][0] |= rows or {}
    for request, fields in zip(value["requests"], requests or (), strict=False):
        request |= fields
    return BenchmarkRun.read(json.dumps(value))


def test_a_rate_beside_next_to_none_has_no_ratio():
    slow, fast = (changed(run(), rows={"output_throughput": rate}) for rate in (1e-300, 1e299))
    assert compare_runs(slow, fast).rows[0].rates.output_throughput.ratio is None
    assert compare_runs(fast, slow).rows[0].rates.output_throughput.ratio == 0


@pytest.mark.parametrize("seed", [0, 7], ids=["paired", "unpaired"])
@pytest.mark.parametrize("end", [1e299, -1e299, 1e200, 1e153])
@pytest.mark.parametrize("count", [1, 3])
def test_times_that_no_clock_tells_are_compared_or_left_out(seed, end, count):
    far = changed(run(seed=seed), requests=[{"end": end}] * count)
    for pair in ((run(), far), (far, run()), (far, far)):
        comparison = compare_runs(*pair)
        assert RunComparison.model_validate_json(json.dumps(comparison.as_json())) == comparison
    assert compare_runs(run(), far).rows[0].latencies.ttft_ms is not None


def test_differences_of_next_to_nothing_are_compared():
    requests = [{"arrival": 0.0, "sent": 0.0, "end": index * 1e-170} for index in range(3)]
    row = compare_runs(changed(run(), requests=requests), changed(run(seed=7), requests=requests)).rows[0]
    assert row.latencies.e2e_ms.mean == 0
