"""`goals`, or `make bench`: what should be reached on a CPU and what was, beside the rivals, in one run."""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace

import httpx2
from rich.console import Console
from rich.table import Table

from benchmarks.goals import Goal, GoalEntry, GoalsDocument, by_contestant, goal_scenarios, served_goals
from benchmarks.rivals.command import read_rivals_arguments, run_rivals
from benchmarks.speed_check import check_speed
from myserve_ui.bench.client.client import Target
from myserve_ui.bench.question.question import AskedTarget
from myserve_ui.cli.bench_arguments import BenchArguments
from myserve_ui.cli.bench_command import open_own_app
from myserve_ui.cli.bench_tables import plain_table
from myserve_ui.cli.parsing import make_parser
from myserve_ui.cli.terminal import progress_line
from myserve_ui.core.number_words import short_number
from myserve_ui.settings import Settings, read_settings

START_SECONDS = 8.0
VERDICTS = {True: "yes", False: "no", None: "not measured"}


def read_goals_arguments(arguments: Sequence[str]) -> tuple[argparse.Namespace, BenchArguments, Settings]:
    """Raises InvalidRequestError, SettingsError; --help prints and exits."""
    parser = make_parser("goals", "What should be reached on this machine, and what was, in one run of a few minutes.")
    parser.add_argument("--rounds", type=int, default=3, help="rounds over all servers (%(default)s)")
    parser.add_argument("--scale", type=int, default=1, help="times as many requests in each scenario (%(default)s)")
    parser.add_argument(
        "--url",
        metavar="[NAME=]URL[#MODEL]",
        help="another server that int4 is held against, such as llama.cpp's with the same model",
    )
    parser.add_argument("--json", metavar="FILE", help="also write the document to FILE")
    options, rest = parser.parse_known_args(arguments)
    url = ("--url", options.url) if options.url else ()
    words = ("--precisions", "full,int4", "--rounds", str(options.rounds), *url, *rest)
    asked = read_rivals_arguments(words)
    return options, asked, read_settings(asked.settings)


async def check_goals(
    options: argparse.Namespace, asked: BenchArguments, settings: Settings, console: Console
) -> GoalsDocument:
    """The `goals` document, its table shown. Raises ModelLoadError if the app cannot be started."""
    goals = [await _time_start(asked, settings, console)]
    goals += await asyncio.to_thread(check_speed, settings, lambda line: console.print(line))
    document = await run_rivals(asked, settings, console, scenarios=goal_scenarios(options.scale))
    other = asked.servers[0].name or asked.servers[0].model if asked.servers else None
    goals = [*served_goals(by_contestant(document.scenarios), other), *goals]
    console.print(goals_table(goals))
    entries = tuple(GoalEntry.model_validate(goal, from_attributes=True) for goal in goals)
    return GoalsDocument(goals=entries, rivals=document)


def goals_table(goals: Sequence[Goal]) -> Table:
    """To reach beside reached."""
    table = plain_table("work", "to reach", "reached", "", "met")
    for goal in goals:
        bound = f"{'≤' if goal.is_ceiling else '≥'} {short_number(goal.to_reach)}"
        table.add_row(goal.work, bound, short_number(goal.reached), goal.unit, VERDICTS[goal.is_met])
    return table


async def _time_start(asked: BenchArguments, settings: Settings, console: Console) -> Goal:
    """From the command to the first token, the weights converted before."""
    first_alone = replace(asked, question=replace(asked.question, targets=(AskedTarget(),)))
    begun = time.perf_counter()
    with progress_line(console) as line:
        async with open_own_app(first_alone, settings, line, with_page=False) as (named,):
            await _ask_for_a_token(named.target)
            seconds = time.perf_counter() - begun
    return Goal("start of the app to its first token", "s", START_SECONDS, seconds, is_ceiling=True)


async def _ask_for_a_token(target: Target) -> None:
    body = {"model": target.model, "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}
    async with httpx2.AsyncClient(trust_env=False, timeout=60.0) as client:
        (await client.post(f"{target.url}/chat/completions", json=body, headers=target.headers)).raise_for_status()
