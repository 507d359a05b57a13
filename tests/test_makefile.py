"""The make targets do what they say on a machine that lacks something, in a folder whose name has a space."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MAKE = shutil.which("make") or "make"
OLD_PYTHON = '#!/bin/sh\ncase "$*" in *version_info*) exit 1 ;; -V) echo Python 3.8.1 ;; esac\n'
BARE_PYTHON = '#!/bin/sh\ncase "$*" in *ensurepip*) exit 1 ;; esac\n'
ECHO_PYTHON = '#!/bin/sh\nfor word in "$@"; do printf "[%s]" "$word"; done; echo\n'
BREAKING_PYTHON = '#!/bin/sh\necho "no network" >&2\nexit 3\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A clone in small: the Makefile and the requirements, in a folder with a space in its name."""
    folder = tmp_path / "my clone"
    folder.mkdir()
    for path in [ROOT / "Makefile", *ROOT.glob("*requirements*.txt"), ROOT / "constraints.txt"]:
        shutil.copy(path, folder)
    return folder


def make(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    variables = {"PATH": "/usr/bin:/bin"} | environment
    return subprocess.run([MAKE, *words], cwd=folder, env=variables, capture_output=True, text=True, check=False)


def write_program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def pretend_installed(folder: Path, python: str = ECHO_PYTHON) -> None:
    write_program(folder / ".venv/bin/python", python)
    for stamp in ("made", "run", "dev"):
        (folder / f".venv/{stamp}.stamp").touch()


def test_plain_make_lists_every_target(folder):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    answer = make(folder)
    assert set(re.findall(r"^make ([a-z-]+) ", answer.stdout, re.MULTILINE)) == targets


def test_an_old_python_is_refused_in_one_sentence(folder):
    write_program(folder / "old", OLD_PYTHON)
    answer = make(folder, "run", "PYTHON=./old")
    assert answer.returncode != 0
    assert answer.stdout == "This needs Python 3.11 or newer; ./old is Python 3.8.1. Try: make PYTHON=python3.12\n"


def test_a_python_without_venv_is_refused_in_one_sentence(folder):
    write_program(folder / "bare", BARE_PYTHON)
    answer = make(folder, "run", "PYTHON=./bare")
    assert answer.returncode != 0
    assert "apt-get install python3-venv" in answer.stdout


def test_run_passes_model_and_options_on(folder):
    pretend_installed(folder)
    assert make(folder, "run").stdout == "[app.py]\n"
    assert make(folder, "run", "MODEL=a b/c").stdout == "[app.py][--model][a b/c]\n"
    assert make(folder, "run", "ARGS=--port 8000").stdout == "[app.py][--port][8000]\n"
    assert make(folder, "selftest", "MODEL=x").stdout == "[-m][myserve_ui][selftest][--model][x]\n"
    assert make(folder, "bench-gpu", "MODEL=x").stdout == "[-m][benchmarks][gpu][--model][x]\n"


def test_an_installed_clone_installs_nothing_again(folder):
    pretend_installed(folder)
    assert "pip" not in make(folder, "run").stdout


def test_a_changed_requirement_is_installed(folder):
    pretend_installed(folder)
    stamp = folder / ".venv/run.stamp"
    changed = folder / "requirements.txt"
    newer = stamp.stat().st_mtime + 10
    os.utime(changed, (newer, newer))
    assert "Installing what the app needs" in make(folder, "run").stdout


def test_a_failed_installation_fails_and_is_tried_again(folder):
    pretend_installed(folder, BREAKING_PYTHON)
    (folder / ".venv/run.stamp").unlink()
    for _ in range(2):
        answer = make(folder, "run")
        assert answer.returncode != 0
        assert "no network" in answer.stderr
        assert not (folder / ".venv/run.stamp").exists()


def test_tests_say_what_they_leave_out_without_chromium(folder):
    pretend_installed(folder)
    missing = make(folder, "test", "CHROMIUM=/nowhere/chromium").stdout
    assert "No /nowhere/chromium here" in missing
    assert missing.endswith("[-m][pytest][-m][not gpu and not slow and not browser]\n")
    assert make(folder, "test", "CHROMIUM=/bin/sh").stdout == "[-m][pytest][-m][not gpu and not slow]\n"


@pytest.mark.parametrize("target", ["check", "lint"])
def test_checks_write_nothing(folder, target):
    pretend_installed(folder)
    steps = make(folder, target).stdout.splitlines()
    assert "[-m][ruff][check][--no-fix][.]" in steps
    assert not any("--fix]" in step for step in steps)
    assert all("--check" in step for step in steps if "[format]" in step)
