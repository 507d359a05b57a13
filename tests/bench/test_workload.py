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


def texts(workload, load=ClosedLoop(1), **part):  # noqa: B008
    return [request.messages[0][1] for request in workload.plan(load, **part)]


def shared(first, second):
    """Words that two prompts begin with in common."""
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(first.split(), second.split())))  # noqa: B905


PROMPTS = ("Write a poem about rain.", "Why is the sky blue?")


@pytest.mark.parametrize("fields", [{}, {"prompts": PROMPTS}, {"shared_prefix_tokens": 40}, {"turns": 2}])
def test_runs_of_other_salts_have_no_beginning_in_common(fields):
    first, second = (Workload(40, salt=salt, **fields) for salt in ("one", "two"))
    for load, part in ((ClosedLoop(1), ""), (ClosedLoop(4), ""), (ClosedLoop(1), "/warm")):
        pairs = [shared(a, b) for a in texts(first, part=part) for b in texts(second, load)[:: fields.get("turns", 1)]]
        assert max(pairs) <= 3


@pytest.mark.parametrize("fields", [{}, {"prompts": PROMPTS}, {"shared_prefix_tokens": 40}])
def test_loads_and_warm_up_of_a_run_have_no_beginning_in_common(fields):
    workload = Workload(20, salt="one", **fields)
    places = [texts(workload), texts(workload, ClosedLoop(4)), texts(workload, part="/warm")]
    assert max(shared(a, b) for one, two in itertools.combinations(places, 2) for a in one for b in two) <= 3


def test_a_prompt_that_comes_again_in_a_run_begins_otherwise():
    first, again = itertools.islice(texts(Workload(4, prompts=PROMPTS, salt="one")), 0, 4, 2)
    assert first.endswith(PROMPTS[0]) and again.endswith(PROMPTS[0])
    assert shared(first, again) <= 3


def test_equal_salts_ask_alike_and_none_leaves_prompts_as_they_are():
    assert texts(Workload(9, salt="one")) == texts(Workload(9, salt="one"))
    assert texts(Workload(3, prompts=PROMPTS, salt="")) == [*PROMPTS, PROMPTS[0]]
    assert texts(Workload(9, salt="")) == texts(Workload(9))


@pytest.mark.parametrize("length", [1, 2, 4, 5, 100])
def test_a_salt_changes_no_length_of_made_prompts_and_adds_four_words_to_given_ones(length):
    plain, salty = (texts(Workload(9, Lengths(length, length), salt=salt)) for salt in ("", "one"))
    assert [len(text.split()) for text in salty] == [len(text.split()) for text in plain] == [length] * 9
    (given,) = texts(Workload(1, prompts=PROMPTS, salt="one"))
    assert len(given.split()) == len(PROMPTS[0].split()) + 4


def test_later_turns_have_no_salt():
    plan = Workload(4, prompts=PROMPTS, turns=2, salt="one").plan(ClosedLoop(1))
    assert [request.messages[0][1].endswith("rain.") for request in plan] == [True, False] * 2
    assert plan[1].messages[0][1] == PROMPTS[1]


def test_a_salt_has_a_bound():
    with pytest.raises(InvalidRequestError, match="salt may have 64 letters, got 65"):
        Workload(salt="x" * 65)
