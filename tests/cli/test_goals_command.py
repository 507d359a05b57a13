"""`goals` asks for full and int4 beside the rivals, and shows what was reached beside what should be."""

from __future__ import annotations

import io

from rich.console import Console

from benchmarks.__main__ import main
from benchmarks.goals import Goal
from benchmarks.goals_command import goals_table, read_goals_arguments


def test_full_and_int4_play_beside_the_rivals_and_another_server():
    options, asked, settings = read_goals_arguments(
        ["--rounds", "2", "--url", "llama.cpp=http://127.0.0.1:8080/v1#m", "--threads", "2"]
    )
    assert (options.scale, asked.options.starts_app, asked.options.rounds) == (1, True, 2)
    assert asked.own.precisions == ("full", "int4")
    assert [(server.name, server.model) for server in asked.servers] == [("llama.cpp", "m")]
    assert settings.threads == 2


def test_a_word_that_is_none_is_refused(capsys):
    assert main(["goals", "--no-such-setting", "1"]) == 2
    assert "no-such-setting" in capsys.readouterr().err


def test_the_table_says_what_was_met_and_what_was_not_measured():
    console = Console(width=120, record=True, file=io.StringIO())
    goals = [Goal("a", "x", 2.0, 3.0), Goal("b", "ms", 3.0, 4.5, is_ceiling=True), Goal("c", "s", 8.0, None)]
    console.print(goals_table(goals))
    rows = [line.split() for line in console.export_text().splitlines()[3:] if line.strip()]
    assert rows == [
        ["a", "≥", "2", "3", "x", "yes"],
        ["b", "≤", "3", "4.5", "ms", "no"],
        ["c", "≥", "8", "–", "s", "not", "measured"],
    ]
