"""README.md says what is so: its table, its scripts, its commands, its links."""

from __future__ import annotations

import ast
import importlib.util
import re
import shlex
from pathlib import Path

import pytest

from myserve_ui.cli.bench_arguments import read_bench_arguments
from myserve_ui.cli.roofline_command import read_roofline_arguments
from myserve_ui.settings import Settings, read_settings
from myserve_ui.settings.words import option_name, variable_name
from tests.readme_parts import README, ROOT, SCRIPT, TABLE, filled_in, settings_table

TEXT = README.read_text(encoding="utf-8")
COMMANDS = "\n".join(re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL)) + "\n".join(re.findall(r"`([^`\n]+)`", TEXT))
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
FIX = "README.md is behind; run: python -m tests.readme_parts"


def test_settings_table_and_settings_agree():
    (table,) = TABLE.finditer(TEXT)
    assert table[2] == settings_table(), FIX


def test_settings_table_tells_every_setting_and_no_home_folder():
    lines = settings_table().splitlines()
    assert len(lines) == len(Settings.model_fields) + 2
    assert "| `--port` | `MYSERVE_PORT` | `7860` | port to listen on; 0 takes a free one |" in lines
    assert str(Path.home()) not in settings_table()


def test_scripts_are_the_example_files():
    scripts = list(SCRIPT.finditer(TEXT))
    examples = {path.relative_to(ROOT).as_posix() for path in (ROOT / "assets" / "examples").iterdir()}
    assert {script["path"] for script in scripts} == examples
    for script in scripts:
        assert script["code"] == (ROOT / script["path"]).read_text(encoding="utf-8"), FIX
        ast.parse(script["code"])


def test_a_part_that_is_behind_is_filled_in():
    assert filled_in(TEXT) == TEXT
    assert filled_in(TEXT.replace("`7860`", "`1`").replace("from openai", "from closed")) == TEXT


def test_make_commands_exist():
    named = set(re.findall(r"\bmake ([a-z-]+)", COMMANDS))
    assert {"run", "test", "check"} <= named <= TARGETS


def test_modules_to_run_exist():
    for name in re.findall(r"python -m (\S+)", TEXT):
        assert importlib.util.find_spec(name), name


def test_options_and_variables_exist():
    options = {option_name(name) for name in Settings.model_fields}
    variables = {variable_name(name) for name in Settings.model_fields}
    app_commands = re.findall(r"(?:app\.py|ARGS=)([^\n#]*)", COMMANDS)
    assert set(re.findall(r"--[a-z-]+", " ".join(app_commands))) <= options
    assert set(re.findall(r"MYSERVE_[A-Z_]+", TEXT)) <= variables


def test_benchmark_commands_are_understood():
    commands = [shlex.split(line, comments=True) for line in COMMANDS.splitlines() if " myserve_ui " in line]
    assert {"bench", "roofline"} <= {command for command, _ in map(_split_command, commands)}
    for command, rest in map(_split_command, commands):
        if command == "bench":
            read_bench_arguments(rest)
        elif command == "roofline":
            read_settings(read_roofline_arguments(rest)[1], {})


def _split_command(words: list[str]) -> tuple[str, list[str]]:
    place = words.index("myserve_ui")
    return words[place + 1], words[place + 2 :]


@pytest.mark.parametrize("name", ["README.md", "CHANGELOG.md"])
def test_links_to_files_lead_somewhere(name):
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", (ROOT / name).read_text(encoding="utf-8"))
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_it_opens_with_what_it_is_and_the_two_commands():
    opening = TEXT[: TEXT.index("\n## ")]
    assert opening.startswith("# myserve-ui\n")
    assert re.search(r"^make run\b.*\nmake test\b", opening, re.MULTILINE)
