"""Keeps runs in a folder: a file each, written whole or not at all, the oldest making way."""

from __future__ import annotations

import json
import logging
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from myserve_ui.bench.documents.run import BenchmarkRun
from myserve_ui.errors import InvalidRequestError

logger = logging.getLogger(__name__)

RUNS_FOLDER = "runs"
"""In the data folder of the settings."""
MAX_RUNS = 200
RUN_ID = re.compile(r"[0-9]{8}-[0-9]{6}-[0-9a-f]{4}")
SUFFIX, UNFINISHED = ".json", ".unfinished-"


@dataclass(frozen=True, slots=True)
class RunLine:
    """One run in a list."""

    id: str
    started: str
    models: tuple[str, ...]
    precisions: tuple[str, ...]
    requests: int
    """In all rows."""
    num_rows: int
    best_throughput: float
    """Output tokens a second of the best row."""
    stopped: bool


@dataclass(frozen=True, slots=True)
class RunListing:
    """What the folder holds, the newest first."""

    runs: tuple[RunLine, ...]
    damaged: tuple[str, ...]
    """Names of files that cannot be read as runs."""


class RunStore:
    """Runs in `folder`, which is made at the first save; at most `max_runs`. Its methods wait for the disk."""

    def __init__(self, folder: Path, *, max_runs: int = MAX_RUNS) -> None:
        self._folder = folder
        self._max_runs = max_runs
        self._seen: dict[str, tuple[int, RunLine | None]] = {}

    def check(self) -> None:
        """Raises InvalidRequestError if no run could be saved; what was measured would be lost."""
        probe = self._folder / f"{UNFINISHED}{os.getpid()}"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            probe.touch()
            probe.unlink(missing_ok=True)
        except OSError as error:
            raise InvalidRequestError(
                f"Runs cannot be saved ({error.strerror}): choose a folder of your own with --data."
            ) from error

    def save(self, run: BenchmarkRun) -> str:
        """Keep `run`; its id. Raises InvalidRequestError if the folder cannot be written."""
        run_id = _checked(run.id)
        target = self._folder / f"{run_id}{SUFFIX}"
        unfinished = self._folder / f"{UNFINISHED}{run_id}-{os.getpid()}"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            unfinished.write_text(json.dumps(run.as_json(), allow_nan=False), encoding="utf-8")
            os.replace(unfinished, target)
        except OSError as error:
            with suppress(OSError):
                unfinished.unlink(missing_ok=True)
            raise InvalidRequestError(
                f"The run could not be saved ({error.strerror}): choose a folder of your own with --data."
            ) from error
        self._drop_oldest()
        return run_id

    def listing(self) -> RunListing:
        """Every run, the newest first; files that are damaged are named apart."""
        lines = [(path.name, self._line(path)) for path in self._files()]
        runs = tuple(line for _, line in lines if line is not None)
        return RunListing(runs[::-1], tuple(name for name, line in lines if line is None))

    def load(self, run_id: str) -> BenchmarkRun:
        """A kept run. Raises InvalidRequestError if there is none of this id, or it is damaged."""
        try:
            data = (self._folder / f"{_checked(run_id)}{SUFFIX}").read_bytes()
        except OSError:
            raise InvalidRequestError(f"There is no run {run_id}; it may have been deleted.", param="run") from None
        return BenchmarkRun.read(data)

    def delete(self, run_id: str) -> None:
        """Forget a run; one that is not there is no error. Raises InvalidRequestError for what is no id."""
        with suppress(FileNotFoundError):
            (self._folder / f"{_checked(run_id)}{SUFFIX}").unlink()

    def _files(self) -> list[Path]:
        """The oldest first: an id begins with its time."""
        return sorted(path for path in self._folder.glob(f"*{SUFFIX}") if RUN_ID.fullmatch(path.stem))

    def _drop_oldest(self) -> None:
        for path in self._files()[: -self._max_runs]:
            with suppress(OSError):
                path.unlink()

    def _line(self, path: Path) -> RunLine | None:
        """What a list says of a file, read again only if it changed; None if it is no run."""
        try:
            changed = path.stat().st_mtime_ns
            if self._seen.get(path.name, (None, None))[0] != changed:
                self._seen[path.name] = changed, _line_of(BenchmarkRun.read(path.read_bytes()))
        except (OSError, InvalidRequestError) as error:
            logger.debug("%s is no run: %s", path.name, error)
            self._seen.pop(path.name, None)
            return None
        return self._seen[path.name][1]


def _line_of(run: BenchmarkRun) -> RunLine:
    return RunLine(
        id=run.id,
        started=run.started,
        models=tuple(dict.fromkeys(row.model for row in run.rows)),
        precisions=tuple(dict.fromkeys(row.precision for row in run.rows)),
        requests=sum(row.requests for row in run.rows),
        num_rows=len(run.rows),
        best_throughput=max((row.output_throughput for row in run.rows), default=0.0),
        stopped=run.stopped,
    )


def _checked(run_id: str) -> str:
    """`run_id`, if it is one: an id is part of a path."""
    if not RUN_ID.fullmatch(run_id):
        raise InvalidRequestError(f"{run_id[:60]!r} is no id of a run.", param="run")
    return run_id
