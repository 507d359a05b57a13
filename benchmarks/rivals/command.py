"""`rivals`: the app, what people run without an engine, and other servers, in rounds on the same prompts."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.goals import CONTINUOUS, GENERATE, OWN, WINDOWS
from benchmarks.rivals.documents import Absent, RivalsDocument, ScenarioResult
from benchmarks.rivals.match import Contestant, Match, Scenario, run_match
from benchmarks.rivals.processes import TurnOrder, running_command, running_rival
from myserve_ui.bench.client.client import Target
from myserve_ui.bench.client.server_facts import find_targets
from myserve_ui.bench.loads import ClosedLoop
from myserve_ui.bench.machine.local import find_model, surroundings_for
from myserve_ui.bench.question.question import NamedTarget
from myserve_ui.bench.workload import Lengths
from myserve_ui.cli.bench_arguments import BenchArguments, bench_parser, read_bench_arguments
from myserve_ui.cli.bench_command import open_own_app, wait_for
from myserve_ui.cli.bench_tables import BUSY, plain_table
from myserve_ui.cli.terminal import ProgressLine, progress_line
from myserve_ui.core.number_words import UNKNOWN, percent, short_number
from myserve_ui.errors import InvalidRequestError, ModelLoadError, MyServeError
from myserve_ui.settings import Settings

SHORT = "short, 1 at once"
"""Where the loop without a cache takes part too: elsewhere it would take minutes."""
NO_CACHE = "no-cache"
BASELINES = {"generate": GENERATE, "windows": WINDOWS, NO_CACHE: "loop without a cache"}
PEERS: dict[str, tuple[str, ...]] = {
    "transformers serve": (),
    CONTINUOUS: ("--continuous-batching", "--cb-max-memory-percent", "0.2"),
}
QUANTIZATION = {"full": (), "nf4": ("--quantization", "bnb-4bit"), "int8": ("--quantization", "bnb-8bit")}
FULL_LENGTH = {"generation_config": '{"eos_token_id": -1, "do_sample": false}'}
"""How `transformers serve` is asked to go on past the end token."""
REQUESTS = 16
ROUND_SECONDS = 120.0
"""For one contestant in one round of one scenario; what is unfinished then is counted as such."""


def read_rivals_arguments(arguments: Sequence[str]) -> BenchArguments:
    """Raises InvalidRequestError for what cannot be understood; --help prints and exits."""
    parser = bench_parser("rivals", "The app beside plain generate and others, in rounds on the same prompts.")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="rounds over all servers (%(default)s)")
    parser.set_defaults(starts_app=True, requests=REQUESTS)
    return read_bench_arguments(arguments, parser)


async def run_rivals(
    asked: BenchArguments, settings: Settings, console: Console, *, scenarios: Sequence[Scenario] = ()
) -> RivalsDocument:
    """The `rivals` document, its tables shown. `scenarios`: those of the arguments if empty.

    Every server stands ready from the beginning, in a process of its own, but one has work at a time. One that cannot
    be started is named with the reason. Raises ModelLoadError if the app itself cannot be started.
    """
    scenarios = tuple(scenarios) or scenarios_of(asked)
    started = datetime.now(UTC)
    async with AsyncExitStack() as stack:
        line = stack.enter_context(progress_line(console))
        field = Contestants(stack, asked, settings, line)
        await field.open_own()
        line.show("measuring the machine and the client")  # before the others are there: some keep a core busy idly
        surroundings = await surroundings_for([field.own])
        await field.open_others()
        own = replace(field.contestants[0], roofline=surroundings.roofline(field.own))
        question, seconds = asked.question, min(asked.question.time_limit, ROUND_SECONDS)
        match = Match((own, *field.contestants[1:]), scenarios, asked.options.rounds, question.limits, seconds)
        if question.workload.salt is not None:
            match = replace(match, salt=question.workload.salt)
        stack.callback(field.turns.let_all_play)
        results = await _play(match, field.turns, line)
    for scenario in results:
        console.print(rivals_table(scenario))
    if any((result.roofline_share or 0) > 1 for scenario in results for result in scenario.results):
        console.print(BUSY)
    for absent in field.absent:
        console.print(f"not run: {absent.contestant}: {absent.reason}")
    return RivalsDocument(
        started=started.isoformat(timespec="seconds"),
        rounds=asked.options.rounds,
        salt=match.salt,
        seconds_limit=seconds,
        model=field.own.target.model,
        dtype=field.dtype,
        machine=surroundings.machine,
        versions=surroundings.versions,
        client_overhead_ms=surroundings.client_overhead_ms,
        scenarios=results,
        not_run=tuple(field.absent),
    )


def rivals_table(scenario: ScenarioResult) -> Table:
    """Medians of one scenario, and how many times as fast the first contestant is."""
    table = plain_table(scenario.name, "done", "not", "tok/s", "TTFT", "TPOT", "E2E", "ratio", "roofline")
    for result in scenario.results:
        table.add_row(
            result.contestant,
            str(result.completed),
            str(result.failed),
            *map(short_number, (result.output_throughput, result.ttft_ms, result.tpot_ms, result.e2e_ms)),
            f"x {result.ratio:.2f}" if result.ratio else UNKNOWN,
            percent(result.roofline_share),
        )
    return table


def scenarios_of(asked: BenchArguments) -> tuple[Scenario, ...]:
    """One for each concurrency of the arguments, and a short one. Raises InvalidRequestError for other loads."""
    closed = [load for load in asked.question.loads if isinstance(load, ClosedLoop)]
    if len(closed) < len(asked.question.loads) or asked.question.workload.prompts:
        raise InvalidRequestError("rivals takes --concurrency, not rates, ramps or prompts of a file.")
    if not 1 <= asked.options.rounds <= 100:
        raise InvalidRequestError(f"--rounds must be in [1, 100], got {asked.options.rounds}.")
    return (*(_scenario(load.concurrency, asked) for load in closed), short_scenario())


def short_scenario() -> Scenario:
    """A few short answers, one at a time."""
    return Scenario(SHORT, 1, Lengths(32, 32), Lengths(16, 16), requests=2)


def _scenario(concurrency: int, asked: BenchArguments) -> Scenario:
    work = asked.question.workload
    return Scenario(
        f"{concurrency} at once",
        concurrency,
        work.prompt_tokens,
        work.output_tokens,
        work.num_requests,
        shared_prefix_tokens=work.shared_prefix_tokens,
        turns=work.turns,
        seed=work.seed,
    )


class Contestants:
    """Starts the contestants on `stack`, which ends them; knows who is up and who could not be started."""

    def __init__(self, stack: AsyncExitStack, asked: BenchArguments, settings: Settings, line: ProgressLine) -> None:
        self.contestants: list[Contestant] = []
        self.absent: list[Absent] = []
        self.own: NamedTarget
        self.dtype = "auto"
        """Of the app's activations; all compute in it."""
        self.turns = TurnOrder()
        self._stack = stack
        self._asked = asked
        self._settings = settings
        self._line = line

    async def open_own(self) -> None:
        """Start the app, and wait until it answers."""
        opening = open_own_app(self._asked, self._settings, self._line, self.turns.add)
        opened = await self._stack.enter_async_context(opening)
        self.own, *others = opened
        self.contestants.append(Contestant(OWN, self.own.target))
        self.contestants += [Contestant(f"{OWN}, {named.precision}", named.target) for named in others]
        await wait_for(opened, self._line)
        info = await find_model(self.own.target)
        self.dtype = info.dtype if info and info.dtype else "auto"

    async def open_others(self) -> None:
        """Start everybody else, and wait until all answer."""
        settings = self._settings_of_rivals()
        for kind, name in BASELINES.items():
            place = SHORT if kind == NO_CACHE else None
            await self._enter(name, running_rival(kind, settings, self.turns), only_in=place)
        for name, options in PEERS.items():
            await self._enter_peer(name, options)
        for server in self._asked.servers:
            self.contestants += [
                Contestant(server.name or named.name, named.target) for named in await find_targets(server)
            ]
        await wait_for([NamedTarget(each.target, each.name) for each in self.contestants[1:]], self._line)

    def _settings_of_rivals(self) -> tuple[str, ...]:
        """Those of the app, in the precision that is measured."""
        precision = ("--precision", self.own.precision) if self._asked.own and self._asked.own.precisions else ()
        return (*self._asked.settings, *precision)

    async def _enter(self, name: str, opening: AbstractAsyncContextManager[str], *, only_in: str | None = None) -> None:
        self._line.show(f"starting {name}")
        try:
            url = await self._stack.enter_async_context(opening)
        except (MyServeError, OSError) as error:
            self.absent.append(Absent(contestant=name, reason=str(error)))
            return
        self.contestants.append(Contestant(name, Target(url, name), (only_in and frozenset({only_in})) or None))

    async def _enter_peer(self, name: str, options: Sequence[str]) -> None:
        """`transformers serve` over the same files, in the same dtype, with answers of the same length."""
        try:
            command, folder = await asyncio.to_thread(self._peer_command, options)
        except MyServeError as error:
            self.absent.append(Absent(contestant=name, reason=error.message))
            return
        before = len(self.contestants)
        await self._enter(name, running_command(command, self.turns))
        for place in range(before, len(self.contestants)):
            target = replace(self.contestants[place].target, model=str(folder), extra=FULL_LENGTH)
            self.contestants[place] = replace(self.contestants[place], target=target)

    def _peer_command(self, options: Sequence[str]) -> tuple[list[str], Path]:
        from benchmarks.rivals.app import find_model_folder  # late: it brings transformers

        precision = self.own.precision or "full"
        program = shutil.which("transformers", path=str(Path(sys.executable).parent)) or shutil.which("transformers")
        if program is None:
            raise ModelLoadError("it is not installed (pip install 'transformers[serving]')")
        if precision not in QUANTIZATION:
            raise ModelLoadError(f"it has no {precision}")
        folder = find_model_folder(self._settings)
        device = () if self._settings.device == "auto" else ("--device", self._settings.device)
        words = [program, "serve", str(folder), *device, "--dtype", self.dtype, *QUANTIZATION[precision], *options]
        return words, folder


async def _play(match: Match, turns: TurnOrder, line: ProgressLine) -> tuple[ScenarioResult, ...]:
    async with aclosing(run_match(match)) as steps:
        async for step in steps:
            if step.next is not None:
                turns.let_play(step.next.target.url)
            line.show(step.text, step.done, step.total)
    return step.scenarios
