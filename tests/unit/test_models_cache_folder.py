"""The cache folder: one process makes a folder, others wait; the dead leave nothing; refusals are a sentence."""

from __future__ import annotations

import errno
import logging
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from myserve_ui.core.model_info import ignore_progress
from myserve_ui.errors import ModelLoadError
from myserve_ui.models.cache_folder import (
    NO_ROOM,
    NOT_WRITABLE,
    UNFINISHED,
    WAITING,
    explain_cache_errors,
    only_one_process,
    remove_own_unfinished,
    replace_folder,
    unfinished_folder,
)

MAKER = """
import sys
from pathlib import Path
from myserve_ui.models.cache_folder import only_one_process, unfinished_folder
target = Path(sys.argv[1])
with only_one_process(target, lambda *_: None), unfinished_folder(target) as folder:
    (folder / "half").write_text("half")
    print("making", flush=True)
    sys.stdin.read()
"""


@contextmanager
def another_process_making(target: Path) -> Iterator[subprocess.Popen[str]]:
    """A process in the middle of making `target`; it gives up when its input closes."""
    process = subprocess.Popen(
        [sys.executable, "-c", MAKER, str(target)],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "making\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def unfinished(cache: Path) -> list[str]:
    return [path.name for path in (cache / "models").glob(f"{UNFINISHED}*")]


def make(target: Path) -> None:
    with only_one_process(target, ignore_progress), unfinished_folder(target) as folder:
        (folder / "whole").write_text("whole")
        replace_folder(folder, target)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "models" / "tiny"


def test_a_second_process_says_that_it_waits_and_goes_on_when_the_first_ends(target):
    stages: list[str] = []
    with another_process_making(target) as first:

        def end_the_first(stage: str, _fraction: float | None) -> None:
            stages.append(stage)
            first.kill()

        with only_one_process(target, end_the_first):
            assert stages == [WAITING]


def test_what_a_killed_process_left_is_cleared_by_the_next(target, tmp_path):
    with another_process_making(target) as process:
        process.kill()
        process.wait()
        assert len(unfinished(tmp_path)) == 1
        make(target)
    assert (target / "whole").exists()
    assert unfinished(tmp_path) == []


def test_what_was_left_of_another_folder_is_cleared_only_if_nobody_makes_it(target, tmp_path):
    with another_process_making(target.with_name("other")) as process:
        make(target)
        assert len(unfinished(tmp_path)) == 1
        process.kill()
        process.wait()
        make(target)
    assert unfinished(tmp_path) == []


def test_a_process_that_ends_clears_its_own_and_no_others(target, tmp_path):
    with (
        another_process_making(target.with_name("other")),
        only_one_process(target, ignore_progress),
        unfinished_folder(target) as own,
    ):
        (left,) = set(unfinished(tmp_path)) - {own.name}
        remove_own_unfinished(tmp_path)
        assert unfinished(tmp_path) == [left]


def test_clearing_a_cache_that_was_never_made_is_nothing(tmp_path):
    remove_own_unfinished(tmp_path / "absent")


def test_a_folder_takes_the_place_of_a_damaged_one(target):
    make(target)
    (target / "damage").touch()
    make(target)
    assert [path.name for path in target.iterdir()] == ["whole"]


@pytest.mark.parametrize("below", ["file", "file/below"])
def test_a_cache_that_cannot_be_made_is_a_sentence(tmp_path, caplog, below):
    (tmp_path / "file").touch()
    with caplog.at_level(logging.INFO), pytest.raises(ModelLoadError) as caught:
        make(tmp_path / below / "models" / "tiny")
    assert caught.value.message == NOT_WRITABLE
    assert caplog.records == []


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), NO_ROOM),
        (OSError(errno.EFBIG, "File too large"), NO_ROOM),
        (RuntimeError("Error while serializing: I/O error: No space left on device (os error 28)"), NO_ROOM),
        (OSError(errno.EROFS, "Read-only file system"), NOT_WRITABLE),
    ],
)
def test_what_the_system_refuses_is_a_sentence(error, sentence):
    with pytest.raises(ModelLoadError) as caught, explain_cache_errors():
        raise error
    assert caught.value.message == sentence


def test_a_mistake_of_our_own_keeps_its_name():
    with pytest.raises(ZeroDivisionError), explain_cache_errors():
        raise ZeroDivisionError
