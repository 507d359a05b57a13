"""A full disk under standard output is a sentence and exit code 1, and loses no document that has a file too."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOFLINE = (
    *("roofline", "--calculate", "--parameters", "7B", "--layers", "32", "--kv-heads", "8", "--head-dim", "128"),
    *("--device", "L4"),
)
ROOT = Path(__file__).parents[2]
SENTENCE = "Standard output cannot be written: No space left on device."


def run(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "myserve_ui", *words]
    with Path("/dev/full").open("w") as full:
        return subprocess.run(command, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True, check=False)


@pytest.mark.parametrize("words", [(), ("--help",), ROOFLINE])
def test_a_full_disk_is_one_sentence(words: tuple[str, ...]) -> None:
    ended = run(*words)
    assert (ended.returncode, ended.stderr.strip().splitlines()[-1]) == (1, SENTENCE)
    assert "Traceback" not in ended.stderr


def test_the_file_is_written_although_standard_output_is_full(tmp_path: Path) -> None:
    assert run(*ROOFLINE, "--json", str(tmp_path / "roofline.json")).returncode == 1
    assert json.loads((tmp_path / "roofline.json").read_text())["device"] == "L4"
