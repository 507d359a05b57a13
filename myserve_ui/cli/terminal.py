"""The person's side of a command: a progress bar and tables on standard error, never on standard output."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from myserve_ui.core.number_words import duration

T = TypeVar("T")

WIDTH_OF_A_FILE = 160
"""Where nobody looks at a terminal, lines are as long as a table needs."""


def make_console() -> Console:
    """Standard error. Words stand there as they are: a model may be called m[red], or m:smile:."""
    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = WIDTH_OF_A_FILE
    return console


def run_until_stopped(work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, which SIGTERM cancels as Ctrl-C does, so that it ends what it started.

    Raises KeyboardInterrupt if it was stopped and has no result.
    """

    async def watched() -> T:
        task = asyncio.current_task()
        assert task is not None
        with suppress(NotImplementedError, RuntimeError):  # Windows, and threads other than the first, have no signals
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        return await work

    try:
        return asyncio.run(watched())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


class ProgressLine:
    """One line that says what goes on; on a terminal a bar, else a line whenever the words change enough."""

    def __init__(self, console: Console, progress: Progress) -> None:
        self._console = console
        self._progress = progress
        self._task: TaskID = progress.add_task("", total=None)
        self._said = ""

    def show(self, text: str, done: int = 0, total: int | None = None, *, seconds_left: float | None = None) -> None:
        """`text` is what is going on, its last part after a colon what changes all the time."""
        left = "" if seconds_left is None else f"  about {duration(seconds_left)} left"
        self._progress.update(self._task, description=f"{text}{left}", completed=done, total=total)
        topic = text.rpartition(": ")[0] or text
        if not self._console.is_terminal and topic != self._said:
            self._said = topic
            self._console.print(topic)


@contextmanager
def progress_line(console: Console) -> Iterator[ProgressLine]:
    """A bar that is gone at the end."""
    columns = (BarColumn(bar_width=24), MofNCompleteColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        yield ProgressLine(console, progress)
