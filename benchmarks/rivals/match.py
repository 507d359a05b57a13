"""The app against its rivals: rounds in turn over the same questions, medians, ratios. One has work at a time."""

from __future__ import annotations

import statistics
import time
import zlib
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

import httpx2

from benchmarks.rivals.documents import ContestantResult, ScenarioResult
from myserve_ui.bench.client.client import Target
from myserve_ui.bench.documents.rows import Row, make_row, relative_records
from myserve_ui.bench.limits import Limits, server_limits
from myserve_ui.bench.loads import ClosedLoop
from myserve_ui.bench.question.question import NamedTarget
from myserve_ui.bench.roofline.roofline import ModelRoofline
from myserve_ui.bench.runner import RunPlan, run_benchmark
from myserve_ui.bench.salt import fresh_salt
from myserve_ui.bench.workload import Lengths, Workload


@dataclass(frozen=True, slots=True)
class Scenario:
    """One way in which a server is used."""

    name: str
    concurrency: int
    prompt_tokens: Lengths
    output_tokens: Lengths
    requests: int
    shared_prefix_tokens: int = 0
    turns: int = 1
    seed: int = 0

    def workload(self, round_number: int, salt: str = "") -> Workload:
        """Other prompts in each round and scenario, so that nothing that a server kept helps it."""
        return Workload(
            self.requests,
            self.prompt_tokens,
            self.output_tokens,
            shared_prefix_tokens=self.shared_prefix_tokens,
            turns=self.turns,
            seed=zlib.crc32(f"{self.name}/{self.seed}/{round_number}".encode()),
            salt=salt,
        )


@dataclass(frozen=True, slots=True)
class Contestant:
    """A server that takes part."""

    name: str
    target: Target
    only_in: frozenset[str] | None = None
    """Names of the scenarios it takes part in; None for all."""
    roofline: ModelRoofline | None = None

    def takes_part_in(self, scenario: Scenario) -> bool:
        return self.only_in is None or scenario.name in self.only_in


@dataclass(frozen=True, slots=True)
class Match:
    """Who meets whom, where, and how often. The first contestant is the one that the others are compared with."""

    contestants: tuple[Contestant, ...]
    scenarios: tuple[Scenario, ...]
    rounds: int = 3
    limits: Limits = field(default_factory=server_limits)
    time_limit: float = 600.0
    """Seconds for one contestant in one round of one scenario."""
    salt: str = field(default_factory=fresh_salt)
    """Makes the first words of prompts: a server that stays up from match to match must not know them."""


@dataclass(frozen=True, slots=True)
class MatchProgress:
    """How far a match is; only the last step has the scenarios."""

    text: str
    done: int
    total: int
    scenarios: tuple[ScenarioResult, ...] = ()
    next: Contestant | None = None
    """Whose turn begins when the next step is asked for."""


Rows = dict[tuple[str, str], list[Row]]


async def run_match(
    match: Match,
    *,
    transport: httpx2.AsyncBaseTransport | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> AsyncGenerator[MatchProgress, None]:
    """Steps of a match; the last has a result for each scenario. Leaving ends it.

    In every round each contestant runs each scenario once, in an order that turns round from round to round; before
    its first run it warms up. Whatever fails is counted in its rows.
    """
    rows: Rows = {}
    turns = [
        (number, scenario, contestant)
        for number in range(match.rounds)
        for scenario, contestant in _order(match, number)
    ]
    for done, (number, scenario, contestant) in enumerate(turns):
        words = f"round {number + 1}, {scenario.name}, {contestant.name}"
        yield MatchProgress(words, done, len(turns), next=contestant)
        plan = RunPlan(
            contestant.target,
            scenario.workload(number, match.salt),
            ClosedLoop(scenario.concurrency),
            match.time_limit,
            warm_up=number == 0,
        )
        async with aclosing(run_benchmark(plan, transport=transport, clock=clock)) as steps:
            async for step in steps:
                records = step.records
        named, relative = NamedTarget(contestant.target, contestant.name), relative_records(records)
        row = make_row(named, plan.load, relative, match.limits, roofline=contestant.roofline)
        rows.setdefault((scenario.name, contestant.name), []).append(row)
    yield MatchProgress(
        "done", len(turns), len(turns), tuple(_result(match, scenario, rows) for scenario in match.scenarios)
    )


def _order(match: Match, number: int) -> list[tuple[Scenario, Contestant]]:
    """Each scenario with its contestants, who begins moving on by one from round to round."""
    order = []
    for scenario in match.scenarios:
        taking = [contestant for contestant in match.contestants if contestant.takes_part_in(scenario)]
        first = number % max(len(taking), 1)
        order += [(scenario, contestant) for contestant in (*taking[first:], *taking[:first])]
    return order


def _result(match: Match, scenario: Scenario, rows: Rows) -> ScenarioResult:
    results = [
        summarise_rounds(contestant.name, rows[scenario.name, contestant.name])
        for contestant in match.contestants
        if (scenario.name, contestant.name) in rows
    ]
    return ScenarioResult(
        name=scenario.name,
        concurrency=scenario.concurrency,
        prompt_tokens=str(scenario.prompt_tokens),
        output_tokens=str(scenario.output_tokens),
        requests=scenario.requests,
        shared_prefix_tokens=scenario.shared_prefix_tokens,
        turns=scenario.turns,
        results=tuple(result.model_copy(update={"ratio": _ratio(results, result)}) for result in results),
    )


def summarise_rounds(name: str, rows: Sequence[Row]) -> ContestantResult:
    """Medians over rounds of throughput and of the rounds' median latencies; counts are added up."""
    shares = [row.roofline_share for row in rows if row.roofline_share is not None]
    return ContestantResult(
        contestant=name,
        requests=sum(row.requests for row in rows),
        completed=sum(row.completed for row in rows),
        failed=sum(row.requests - row.completed for row in rows),
        errors=tuple(sorted({error for row in rows for error in row.errors})),
        output_throughput=statistics.median(row.output_throughput for row in rows),
        rounds=tuple(row.output_throughput for row in rows),
        ttft_ms=_median([row.ttft_ms.p50 for row in rows if row.ttft_ms]),
        tpot_ms=_median([row.tpot_ms.p50 for row in rows if row.tpot_ms]),
        e2e_ms=_median([row.e2e_ms.p50 for row in rows if row.e2e_ms]),
        ttft_p95_ms=_median([row.ttft_ms.p95 for row in rows if row.ttft_ms]),
        roofline_share=_median(shares),
    )


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


def _ratio(results: Sequence[ContestantResult], result: ContestantResult) -> float | None:
    first, other = results[0].output_throughput, result.output_throughput
    return first / other if result is not results[0] and other and first else None
