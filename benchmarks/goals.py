"""What this project wants to reach on a CPU with its default model, and how near one run came."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from benchmarks.rivals.documents import ContestantResult, RivalsDocument, ScenarioResult
from benchmarks.rivals.match import Scenario
from myserve_ui.bench.workload import Lengths
from myserve_ui.documents import Document, Flag, Number, Part

ONE, FOUR, SIXTEEN, MIXED = "1 stream", "4 at once", "16 at once", "8 at once, mixed lengths"
GENERATE, WINDOWS = "plain generate, one at a time", "window batcher"
CONTINUOUS = "transformers serve, continuous batching"
OWN, OWN_INT4 = "this app", "this app, int4"
"""Names of contestants, as `bench --rivals` calls them."""

Matches = Mapping[str, Mapping[str, ContestantResult]]
"""Scenario -> contestant -> medians."""


@dataclass(frozen=True, slots=True)
class Goal:
    """One row: at least `to_reach`, or at most if `is_ceiling`. `reached` is None if it could not be measured."""

    work: str
    unit: str
    to_reach: float
    reached: float | None
    is_ceiling: bool = False

    @property
    def is_met(self) -> bool | None:
        if self.reached is None:
            return None
        return self.reached <= self.to_reach if self.is_ceiling else self.reached >= self.to_reach


class GoalEntry(Part):
    """A goal as it is written down: made of a Goal by `model_validate(goal, from_attributes=True)`."""

    work: str
    unit: str
    to_reach: Number
    reached: Number | None
    is_ceiling: Flag
    is_met: Flag | None


class GoalsDocument(Document):
    """All goals, and the match that some of them come from."""

    NAME: ClassVar[str] = "list of goals"

    kind: Literal["goals"] = "goals"
    goals: tuple[GoalEntry, ...]
    rivals: RivalsDocument


def goal_scenarios(scale: int = 1) -> tuple[Scenario, ...]:
    """How the servers are used; `scale` multiplies the requests."""
    short = Lengths(32, 32)
    return (
        Scenario(ONE, 1, short, short, 3 * scale),
        Scenario(FOUR, 4, short, short, 8 * scale),
        Scenario(SIXTEEN, 16, short, short, 16 * scale),
        Scenario(MIXED, 8, Lengths(64, 400), Lengths(16, 64), 8 * scale),
    )


def served_goals(matches: Matches, other: str | None = None) -> list[Goal]:
    """Goals that compare servers on the same requests; `other` is the contestant that int4 is held against."""
    rates = [
        (ONE, OWN, GENERATE, 1.8),
        (SIXTEEN, OWN, WINDOWS, 2.5),
        (SIXTEEN, OWN, CONTINUOUS, 3.0),
        (MIXED, OWN, WINDOWS, 2.0),
        (MIXED, OWN, CONTINUOUS, 2.0),
        (ONE, OWN_INT4, GENERATE, 3.5),
    ]
    if other is not None:
        rates += [(place, OWN_INT4, other, 1.0) for place in (ONE, FOUR, SIXTEEN)]
        rates += [(place, OWN, other, 1.0) for place in (SIXTEEN, MIXED)]
    goals = [
        Goal(f"{place}: {ours} against {theirs}", "x tok/s", wanted, _ratio(matches, place, ours, theirs))
        for place, ours, theirs, wanted in rates
    ]
    return goals + [
        Goal(
            f"{MIXED}: p95 TTFT against {theirs}",
            "x",
            1 / 3,
            _ratio(matches, MIXED, OWN, theirs, of=lambda result: result.ttft_p95_ms),
            is_ceiling=True,
        )
        for theirs in (WINDOWS, CONTINUOUS)
    ]


def by_contestant(scenarios: Sequence[ScenarioResult]) -> dict[str, dict[str, ContestantResult]]:
    """The scenarios of a `rivals` document, to be looked up by name."""
    return {each.name: {result.contestant: result for result in each.results} for each in scenarios}


def _throughput(result: ContestantResult) -> float | None:
    return result.output_throughput


def _ratio(
    matches: Matches,
    place: str,
    ours: str,
    theirs: str,
    *,
    of: Callable[[ContestantResult], float | None] = _throughput,
) -> float | None:
    own, other = (matches.get(place, {}).get(name) for name in (ours, theirs))
    mine, yours = of(own) if own else None, of(other) if other else None
    return mine / yours if mine and yours else None
