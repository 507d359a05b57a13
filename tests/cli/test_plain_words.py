"""Names come from servers and files: in every table, line and bar they stand as they are, whatever they look like."""

from __future__ import annotations

import pytest

from benchmarks.goals import Goal
from benchmarks.goals_command import goals_table
from benchmarks.rivals.command import rivals_table
from benchmarks.rivals.documents import ScenarioResult
from benchmarks.rivals.match import summarise_rounds
from myserve_ui.bench.client.client import Target
from myserve_ui.bench.documents.comparison import compare_runs
from myserve_ui.bench.loads import ClosedLoop
from myserve_ui.bench.question.question import NamedTarget
from myserve_ui.bench.workload import Workload
from myserve_ui.cli.bench_tables import circumstances, comparison_table, results_table
from myserve_ui.cli.terminal import make_console, progress_line
from tests.bench.made_runs import make_request, make_run, one_row_run


@pytest.fixture(params=["m[/x]", "m[red]x[/red]", "m:smile:", "m\\[x]", "[link=http://s]m"])
def name(request: pytest.FixtureRequest) -> str:
    return request.param


def test_a_run_and_its_comparison_name_a_model_as_it_is(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    target = NamedTarget(Target("http://s/v1", name), name)
    run = make_run(make_request((target,), Workload(1), (ClosedLoop(1),)), one_row_run().records_of(0))
    console = make_console()
    for shown in (results_table(run), comparison_table(compare_runs(run, run)), *circumstances(run), f"kept as {name}"):
        console.print(shown)
    printed = capsys.readouterr().err
    assert printed.count(name) >= 4


def test_tables_beside_the_package_do_too(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    console = make_console()
    console.print(goals_table([Goal(name, "s", 1.0, 2.0)]))
    console.print(rivals_table(_scenario(name)))
    assert capsys.readouterr().err.count(name) == 3


def test_what_goes_on_is_told_as_it_is(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with progress_line(make_console()) as line:
        line.show(f"waiting for {name}")
    assert f"waiting for {name}" in capsys.readouterr().err


def _scenario(name: str) -> ScenarioResult:
    return ScenarioResult(
        name=name,
        concurrency=1,
        prompt_tokens="8",
        output_tokens="4",
        requests=1,
        shared_prefix_tokens=0,
        turns=1,
        results=(summarise_rounds(name, one_row_run().rows),),
    )
