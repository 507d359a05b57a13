"""`bench`: measures the app, which it starts, or any server, and prints tables, then one JSON document."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from myserve_ui.bench.client.client import NO_KEY
from myserve_ui.bench.client.server_facts import find_targets, wait_until_ready
from myserve_ui.bench.documents.comparison import compare_runs
from myserve_ui.bench.documents.differences import RunComparison
from myserve_ui.bench.documents.run import BenchmarkRun
from myserve_ui.bench.documents.store import RUNS_FOLDER, RunStore
from myserve_ui.bench.machine.local import surroundings_for
from myserve_ui.bench.question.question import AskedTarget, BenchmarkRequest, NamedTarget
from myserve_ui.bench.sweep import Surroundings, Sweep
from myserve_ui.cli.bench_arguments import BenchArguments
from myserve_ui.cli.bench_tables import circumstances, comparison_table, comparison_words, results_table
from myserve_ui.cli.processes import OnReady, running_app
from myserve_ui.cli.terminal import ProgressLine, progress_line, run_until_stopped
from myserve_ui.documents import Document
from myserve_ui.errors import GenerationFailedError, InvalidRequestError, MyServeError
from myserve_ui.settings import Settings

Deliver = Callable[[Document], None]


def run_bench(asked: BenchArguments, settings: Settings, console: Console, deliver: Deliver) -> None:
    """Run a benchmark, or compare two that are there; `deliver` gets the document.

    Raises InvalidRequestError, ModelLoadError; GenerationFailedError if not one request was answered, MyServeError if
    the run cannot be kept after all.
    """
    store = RunStore(settings.data / RUNS_FOLDER)
    others = [load_run(name, store) for name in asked.options.compare]
    if len(others) > 1:
        comparison = compare_runs(others[0], others[1])
        _show_comparison(comparison, console)
        deliver(comparison)
        return
    if asked.options.save:
        store.check()
    run = run_until_stopped(_measure(asked, settings, console))
    try:
        if asked.options.save and run.rows:
            console.print(f"kept as {_save(run, store)}")
        if others:
            _show_comparison(compare_runs(others[0], run), console)
    finally:
        deliver(run)
    _check_that_something_came(run)


def _save(run: BenchmarkRun, store: RunStore) -> str:
    """Raises MyServeError, for what was asked was well asked: the folder could be written before the run."""
    try:
        return store.save(run)
    except InvalidRequestError as error:
        raise MyServeError(f"{error.message} The document is on standard output.") from None


def _show_comparison(comparison: RunComparison, console: Console) -> None:
    console.print(comparison_table(comparison))
    for words in comparison_words(comparison):
        console.print(words)


def load_run(name: str, store: RunStore) -> BenchmarkRun:
    """A run by its id or from a file. Raises InvalidRequestError."""
    path = Path(name)
    if not path.is_file():
        return store.load(name)
    try:
        return BenchmarkRun.read(path.read_bytes())
    except OSError as error:
        raise InvalidRequestError(f"{name} cannot be read: {error.strerror}.") from None


async def _measure(asked: BenchArguments, settings: Settings, console: Console) -> BenchmarkRun:
    with progress_line(console) as line:
        async with open_targets(asked, settings, line) as targets:
            request = BenchmarkRequest(targets, asked.question)
            await wait_for(targets, line)
            line.show("measuring the machine and the client")
            run = await _sweep(request, await surroundings_for(targets), line)
    run = run.model_copy(update={"settings": run.settings.model_copy(update={"starts_app": asked.own is not None})})
    console.print(results_table(run))
    for words in circumstances(run):
        console.print(words)
    return run


@asynccontextmanager
async def open_targets(
    asked: BenchArguments, settings: Settings, line: ProgressLine
) -> AsyncIterator[tuple[NamedTarget, ...]]:
    """The targets of every --url; without one, those of the app, which runs as long as they are used."""
    if asked.own is None:
        found = [await find_targets(server) for server in asked.servers]
        yield tuple(named for targets in found for named in targets)
        return
    async with open_own_app(asked, settings, line) as targets:
        yield targets


@asynccontextmanager
async def open_own_app(
    asked: BenchArguments,
    settings: Settings,
    line: ProgressLine,
    on_ready: OnReady | None = None,
    *,
    with_page: bool = True,
) -> AsyncIterator[tuple[NamedTarget, ...]]:
    """The app in a process of its own, and the targets of the precisions that are asked for; see running_app."""
    line.show("starting the app")
    key = settings.api_key[0].get_secret_value() if settings.api_key else NO_KEY
    own = replace(asked.own or AskedTarget(), api_key=key)
    async with running_app(asked.settings, on_ready, with_page=with_page) as url:
        yield await find_targets(own, f"{url}/v1")


async def wait_for(targets: Sequence[NamedTarget], line: ProgressLine) -> None:
    """Until each answers, or refuses for another reason than that it loads."""
    for named in targets:
        line.show(f"waiting for {named.name}")
        async for words in wait_until_ready(named.target):
            line.show(f"waiting for {named.name}: {words}")


async def _sweep(request: BenchmarkRequest, surroundings: Surroundings, line: ProgressLine) -> BenchmarkRun:
    """The whole run; of what was measured until then, if the person stops it."""
    sweep = Sweep(request, surroundings=surroundings)
    try:
        async with aclosing(sweep.run()) as steps:
            async for step in steps:
                line.show(step.text, step.done, step.total, seconds_left=step.seconds_left)
    except asyncio.CancelledError:
        if not sweep.has_results:
            raise
    return sweep.document()


def _check_that_something_came(run: BenchmarkRun) -> None:
    if any(row.completed for row in run.rows):
        return
    errors = [error for row in run.rows for error in row.errors]
    raise GenerationFailedError(
        f"Not one request was answered: {errors[0].rstrip('.') if errors else 'the time was over'}."
    )
