"""Loads: their bounds, ramps, and how they are written down."""

import itertools
import random

import pytest

from myserve_ui.bench.loads import ClosedLoop, OpenLoop, Ramp, load_words, plan_arrivals, read_load, write_load
from myserve_ui.errors import InvalidRequestError

RAMP = Ramp((ClosedLoop(1), ClosedLoop(4), ClosedLoop(16)))
RATES = Ramp((OpenLoop(1.0, 1e6), OpenLoop(10.0, 1e6)))


def test_each_step_of_a_ramp_has_an_equal_share_of_the_requests():
    places = [arrival.places for arrival in plan_arrivals(RAMP, 9, random.Random(0))]
    assert places == [1, 1, 1, 4, 4, 4, 16, 16, 16]


def test_a_ramp_of_rates_goes_on_where_the_last_step_ends():
    offsets = [arrival.offset for arrival in plan_arrivals(RATES, 8, random.Random(0))]
    gaps = [later - earlier for earlier, later in itertools.pairwise(offsets)]
    assert gaps == pytest.approx([1.0] * 4 + [0.1] * 3, rel=0.02)


@pytest.mark.parametrize("load", [ClosedLoop(3), OpenLoop(2.5, 4.0), RAMP, RATES])
def test_a_load_comes_back_from_json(load):
    assert read_load(write_load(load)) == load


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"kind": "tide"},
        {"kind": "closed"},
        {"kind": "closed", "concurrency": "many"},
        {"kind": "closed", "concurrency": 10_000},
        {"kind": "open", "rate": 1e400, "burstiness": 1},
        {"kind": "ramp", "steps": []},
        {"kind": "ramp", "steps": [{"kind": "closed", "concurrency": 1}, {"kind": "open", "rate": 1, "burstiness": 1}]},
        {"kind": "ramp", "steps": 5},
    ],
)
def test_what_is_no_load_is_refused(document):
    with pytest.raises(InvalidRequestError):
        read_load(document)


@pytest.mark.parametrize("steps", [(), (ClosedLoop(1),), (ClosedLoop(1), OpenLoop(1.0)), (ClosedLoop(1),) * 99])
def test_a_ramp_that_is_none_is_refused(steps):
    with pytest.raises(InvalidRequestError):
        Ramp(steps)


def test_loads_in_words():
    assert load_words(ClosedLoop(4)) == "4 at once"
    assert load_words(OpenLoop(2.0)) == "2 requests/s"
    assert load_words(RAMP) == "1 to 16 at once in 3 steps"
    assert load_words(Ramp((OpenLoop(1), OpenLoop(8)))) == "1 to 8 requests/s in 2 steps"
