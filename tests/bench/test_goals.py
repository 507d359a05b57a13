"""Goals are ratios of medians, met from the right side, and open where something was not measured."""

from __future__ import annotations

import pytest

from benchmarks.goals import (
    CONTINUOUS,
    GENERATE,
    MIXED,
    ONE,
    OWN,
    OWN_INT4,
    WINDOWS,
    Goal,
    GoalEntry,
    by_contestant,
    goal_scenarios,
    served_goals,
)
from benchmarks.rivals.documents import ContestantResult, ScenarioResult


def result(contestant, throughput):
    return ContestantResult(
        contestant=contestant,
        requests=1,
        completed=1,
        failed=0,
        errors=(),
        output_throughput=throughput,
        rounds=(throughput,),
        ttft_ms=None,
        tpot_ms=None,
        e2e_ms=None,
        ttft_p95_ms=1000 / throughput if throughput else None,
        roofline_share=None,
    )


def scenario(name, **throughputs):
    return ScenarioResult(
        name=name,
        concurrency=1,
        prompt_tokens="32",
        output_tokens="32",
        requests=1,
        shared_prefix_tokens=0,
        turns=1,
        results=tuple(result(contestant, throughput) for contestant, throughput in throughputs.items()),
    )


def goals_of(*scenarios, other=None):
    return {goal.work: goal for goal in served_goals(by_contestant(scenarios), other)}


def test_a_goal_is_the_ratio_of_two_medians():
    goals = goals_of(scenario(ONE, **{OWN: 30.0, OWN_INT4: 60.0, GENERATE: 15.0}))
    assert goals[f"{ONE}: {OWN} against {GENERATE}"].reached == 2.0
    assert goals[f"{ONE}: {OWN_INT4} against {GENERATE}"].is_met is True


def test_a_wait_is_met_from_below():
    goals = goals_of(scenario(MIXED, **{OWN: 40.0, WINDOWS: 10.0, CONTINUOUS: 20.0}))
    assert goals[f"{MIXED}: p95 TTFT against {WINDOWS}"].is_met is True  # a quarter of it
    assert goals[f"{MIXED}: p95 TTFT against {CONTINUOUS}"].is_met is False  # half of it


def test_what_did_not_run_is_not_measured():
    goals = goals_of(scenario(ONE, **{OWN: 30.0, GENERATE: 0.0}))
    assert {goal.is_met for goal in goals.values()} == {None}


def test_another_server_is_held_against_int4_and_full():
    goals = goals_of(scenario(ONE, **{OWN_INT4: 50.0, "llama.cpp": 100.0}), other="llama.cpp")
    assert goals[f"{ONE}: {OWN_INT4} against llama.cpp"].reached == 0.5
    assert len(goals) == len(goals_of()) + 5


@pytest.mark.parametrize(("reached", "is_ceiling", "is_met"), [(2, False, True), (2, True, True), (3, True, False)])
def test_the_bound_itself_is_met(reached, is_ceiling, is_met):
    assert Goal("w", "x", 2.0, reached, is_ceiling).is_met is is_met


def test_the_scenarios_ask_for_what_the_goals_name():
    assert {ONE, MIXED} < {each.name for each in goal_scenarios()}
    assert goal_scenarios(2)[0].requests == 2 * goal_scenarios()[0].requests


def test_a_goal_is_written_with_whether_it_is_met():
    entry = GoalEntry.model_validate(Goal("w", "x", 2.0, 3.0), from_attributes=True)
    assert entry.model_dump() == {
        "work": "w",
        "unit": "x",
        "to_reach": 2.0,
        "reached": 3.0,
        "is_ceiling": False,
        "is_met": True,
    }
