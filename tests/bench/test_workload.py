"""Prompts, lengths and arrivals: seeded, bounded, and refused by name when they make no sense."""

import itertools
import statistics

import pytest

from myserve_ui.bench.loads import ClosedLoop, OpenLoop
from myserve_ui.bench.workload import Lengths, Workload, parse_lengths
from myserve_ui.errors import InvalidRequestError


def test_lengths_stay_in_their_range():
    plan = Workload(200, Lengths(5, 9), Lengths(16, 64)).plan(ClosedLoop(1))
    words = {len(request.messages[0][1].split()) for request in plan}
    assert words == {5, 6, 7, 8, 9}
    assert all(16 <= request.max_tokens <= 64 for request in plan)


def test_prompts_differ_from_each_other():
    plan = Workload(50).plan(ClosedLoop(1))
    assert len({request.messages for request in plan}) == 50


def test_a_shared_prefix_is_shared():
    plan = Workload(5, shared_prefix_tokens=40).plan(ClosedLoop(1))
    beginnings = {" ".join(request.messages[0][1].split()[:40]) for request in plan}
    assert len(beginnings) == 1


@pytest.mark.parametrize(("burstiness", "spread"), [(1.0, 1.0), (100.0, 0.1)])
def test_gaps_have_the_mean_and_the_spread_of_their_gamma(burstiness, spread):
    offsets = [request.arrival.offset for request in Workload(5000).plan(OpenLoop(10.0, burstiness))]
    gaps = [later - earlier for earlier, later in itertools.pairwise(offsets)]
    assert statistics.mean(gaps) == pytest.approx(0.1, rel=0.1)
    assert statistics.stdev(gaps) / statistics.mean(gaps) == pytest.approx(spread, rel=0.1)


def test_arrivals_do_not_depend_on_the_prompts():
    first, second = (Workload(20, lengths).plan(OpenLoop(5.0)) for lengths in (Lengths(4, 4), Lengths(4, 40)))
    assert [request.arrival for request in first] == [request.arrival for request in second]


@pytest.mark.parametrize(
    "make",
    [
        lambda: ClosedLoop(0),
        lambda: ClosedLoop(10_000),
        lambda: OpenLoop(0),
        lambda: OpenLoop(-1),
        lambda: OpenLoop(1, 0),
        lambda: Workload(0),
        lambda: Workload(5, Lengths(0, 3)),
        lambda: Workload(5, Lengths(9, 3)),
        lambda: Workload(seed=-1),
        lambda: Workload(seed=2**63),
    ],
)
def test_what_makes_no_sense_is_refused(make):
    with pytest.raises(InvalidRequestError):
        make()


def test_lengths_are_written_as_a_number_or_a_range():
    assert (parse_lengths("32"), parse_lengths("64:400")) == (Lengths(32, 32), Lengths(64, 400))
    with pytest.raises(InvalidRequestError):
        parse_lengths("many")
