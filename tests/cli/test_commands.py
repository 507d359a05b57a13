"""`python -m myserve_ui …`: one JSON document on the last line, exit codes, and errors of one sentence."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from myserve_ui import __version__
from myserve_ui.cli.commands import main
from myserve_ui.cli.report_arguments import read_text

TEXT = "The quick brown fox jumps over the lazy dog."
ECHO = ["--force-echo"]
"""The echo serves as a model of a few lines: no weights are needed to try a command."""


@pytest.fixture
def text(tmp_path: Path) -> str:
    path = tmp_path / "text.txt"
    path.write_text(TEXT)
    return str(path)


def test_fidelity_prints_one_document_and_writes_it(text: str, tmp_path: Path, capsys) -> None:
    target = tmp_path / "out.json"
    words = ["fidelity", "--text", text, "--base", "full", "--candidate", "full", "--json", str(target)]
    assert main([*words, "--window", "16", "--stride", "8", *ECHO]) == 0
    printed = capsys.readouterr()
    document = json.loads(printed.out.splitlines()[-1])
    assert document == json.loads(target.read_text())
    assert (document["kind"], document["tokens_scored"], document["kld"]["max"]) == ("fidelity", len(TEXT), 0)
    assert f"0 of {len(TEXT)} tokens scored" in printed.err


def test_perplexity_prints_one_document(text: str, capsys) -> None:
    assert main(["perplexity", "--text", text, "--window", "16", "--stride", "8", *ECHO]) == 0
    document = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (document["kind"], len(document["tokens"])) == ("perplexity", len(TEXT))
    assert (document["model"], document["perplexity"]["value"]) == ("echo", pytest.approx(1.0))  # it foresees a text


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["fidelty"], "choose serve, bench, fidelity, perplexity"),
        (["fidelty"], "There is no command 'fidelty'"),
        (["fidelity", "--window", "x"], "--window: invalid int value"),
        (["fidelity", "--text", "/nowhere/x.txt"], "cannot be read: No such file"),
        (["fidelity", "--prot", "1"], "--prot is not an option; the nearest is --port"),
        (["fidelity", "--nope"], "`python -m myserve_ui fidelity --help` lists them"),
        (["perplexity", "--nope"], "`python -m myserve_ui perplexity --help` lists them"),
        (["bench", "--nope"], "`python -m myserve_ui bench --help` lists them"),
        (["roofline", "--nope", "3"], "`python -m myserve_ui roofline --help` lists them"),
        (["selftest", "--nope"], "`python -m myserve_ui selftest --help` lists them"),
        (["fidelity", "--candidate", "q8", *ECHO], "There is no model 'q8'"),
        (["fidelity", "--candidate", "full", "--stride", "0", *ECHO], "stride must be in"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(words: list[str], sentence: str, text: str, capsys) -> None:
    asked = words if "--text" in words or not words or words[0] != "fidelity" else [*words, "--text", text]
    assert main(asked) == 2
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert sentence in last


def test_a_text_that_is_not_utf8_is_refused(tmp_path: Path, capsys) -> None:
    (tmp_path / "latin.txt").write_bytes("Überfall".encode("latin-1"))
    assert main(["fidelity", "--text", str(tmp_path / "latin.txt"), *ECHO]) == 2
    assert "not UTF-8 text (byte 0)" in capsys.readouterr().err


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_a_byte_order_mark_is_no_text(mark: str, tmp_path: Path) -> None:
    (tmp_path / "text").write_text(f"{mark}one\u2028two\x0c", encoding="utf-8")
    assert read_text(str(tmp_path / "text"), Path()) == "one\u2028two\x0c"


def test_help_is_quick_and_names_the_commands() -> None:
    run = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "myserve_ui", "--help"], capture_output=True, text=True
    )
    assert run.returncode == 0
    assert "fidelity" in run.stdout and "perplexity" in run.stdout
    assert " torch\n" not in run.stderr and " gradio\n" not in run.stderr


QUIET = """
import sys
from {program} import main
main({words!r})
from huggingface_hub import constants
sys.exit(not constants.HF_HUB_DISABLE_TELEMETRY)
"""


@pytest.mark.parametrize(
    ("program", "words"),
    [("myserve_ui.cli.commands", ["selftest", "--prot"]), ("benchmarks.__main__", ["gpu", "--prot"])],
)
def test_libraries_are_told_to_call_nobody_before_they_are_imported(program: str, words: list[str]) -> None:
    script = QUIET.format(program=program, words=words)
    names = ("HF_HUB_DISABLE_TELEMETRY", "DO_NOT_TRACK", "HF_HUB_OFFLINE")
    environment = {name: value for name, value in os.environ.items() if name not in names}
    assert subprocess.run([sys.executable, "-c", script], env=environment, check=False).returncode == 0


def test_selftest_lists_its_own_options(capsys) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["selftest", "--help"])
    assert "selftest [-h]" in capsys.readouterr().out


def test_the_version_is_told_without_a_command(capsys) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"myserve-ui {__version__}\n"


def test_no_command_prints_the_help(capsys) -> None:
    assert main([]) == 0
    assert "  serve       the chat page" in capsys.readouterr().out


def test_a_reader_who_leaves_is_no_traceback() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "myserve_ui", "--help"]
    ended = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (1, "")
