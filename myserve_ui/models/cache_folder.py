"""Lets one process at a time make a folder in the cache, and nobody see it half-made.

The lock is the operating system's: it goes with the process that held it, however that ended. So an unfinished folder
whose lock is free is abandoned.
"""

from __future__ import annotations

import logging
import os
import platform
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from myserve_ui.core.model_info import OnProgress
from myserve_ui.errors import ModelLoadError, MyServeError
from myserve_ui.models.loading.errors import FULL_DISK, find_errno

logger = logging.getLogger(__name__)

FOLDER = "models"
UNFINISHED, LOCK = ".unfinished-", ".lock-"
WAITING = "another process is converting; waiting"
LOOK_AGAIN_SECONDS = 0.2
NO_ROOM = (
    "There is no room in the cache folder for the converted weights: free some, or choose a folder elsewhere with "
    "--cache or MYSERVE_CACHE."
)
NOT_WRITABLE = (
    "The cache folder for the converted weights cannot be made or written: choose a folder of your own with "
    "--cache or MYSERVE_CACHE."
)


@contextmanager
def only_one_process(target: Path, on_progress: OnProgress) -> Iterator[None]:
    """Hold the lock of `target`, a folder to be made in the cache; waits for the process that holds it.

    Raises ModelLoadError if the cache folder cannot be made or written.
    """
    with explain_cache_errors():
        target.parent.mkdir(parents=True, exist_ok=True)
        lock = _lock_of(target)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            on_progress(WAITING, None)
            lock.acquire(timeout=-1, poll_interval=LOOK_AGAIN_SECONDS)
    try:
        yield
    finally:
        lock.release()


@contextmanager
def unfinished_folder(target: Path) -> Iterator[Path]:
    """An empty folder to fill and put in place with `replace_folder`; gone at the end. Needs the lock of `target`."""
    folder = target.with_name(f"{UNFINISHED}{target.name}{_owner()}")
    with explain_cache_errors():
        _remove_abandoned(target)
        folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def replace_folder(folder: Path, target: Path) -> None:
    """Rename the finished `folder` to `target`; what was there is removed. Needs the lock of `target`."""
    old = folder.with_name(f"{folder.name}-old")
    if target.exists():
        target.rename(old)
    folder.rename(target)
    shutil.rmtree(old, ignore_errors=True)


def remove_own_unfinished(cache: Path) -> None:
    """Clear what this process is still making, just before it ends."""
    for folder in (cache / FOLDER).glob(f"{UNFINISHED}*"):
        if folder.name.endswith(_owner()):
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def explain_cache_errors() -> Iterator[None]:
    """Raise ModelLoadError, with the way out, for what the operating system refuses inside the block."""
    try:
        yield
    except MyServeError:
        raise
    except Exception as error:
        if (number := find_errno(error)) is None:
            raise
        logger.debug("writing to the cache folder failed", exc_info=True)
        raise ModelLoadError(NO_ROOM if number in FULL_DISK else NOT_WRITABLE) from error


def _remove_abandoned(target: Path) -> None:
    """Clear what killed processes left half-written, of `target` and of others."""
    for folder in target.parent.glob(f"{UNFINISHED}*"):
        made_for = folder.with_name(folder.name.removeprefix(UNFINISHED).rpartition("@")[0] or "unknown")
        if made_for == target:
            shutil.rmtree(folder, ignore_errors=True)
        else:
            with suppress(Timeout), _lock_of(made_for).acquire(timeout=0):
                shutil.rmtree(folder, ignore_errors=True)


def _lock_of(target: Path) -> FileLock:
    return FileLock(target.with_name(f"{LOCK}{target.name}"))


def _owner() -> str:
    """Of this process; with the machine's name, since containers that share a cache all have the same numbers."""
    return f"@{platform.node()}-{os.getpid()}"
