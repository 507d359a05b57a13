"""The app's process: output that nobody may be reading, and signals beside SIGINT and SIGTERM."""

from __future__ import annotations

import faulthandler
import io
import os
import signal
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import NoReturn, TextIO

Handler = Callable[[int, FrameType | None], None]

HANG_UP = "SIGHUP"
"""Sent when a terminal closes, twice where a shell and the system both send it. Windows has none."""
STACKS = ("SIGUSR1", "SIGUSR2")


def secure_streams() -> None:
    """Make standard streams that can be written to, whatever the process was given.

    A closed one would be a danger: the next file or socket that is opened takes its number, and a library's line for
    the terminal goes there.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if not _is_open(number):
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free, which is this one
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "r" if name == "stdin" else "w", closefd=False))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal without umlauts gets them as escapes


def say(message: str, stream: TextIO) -> None:
    """One message to whoever reads `stream`, if anybody does."""
    with suppress(OSError, ValueError):
        stream.write(f"{message}\n")
        stream.flush()


def discard_output() -> None:
    """Send what standard output has still to take nowhere: Python would fail on it once more as it ends."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def leave(exit_code: int) -> NoReturn:
    """End the process at once. Python would wait for threads that still load, and take torch down for seconds."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(exit_code)


def forgive_warnings() -> None:
    """Show warnings that were to be errors (`python -W error`, PYTHONWARNINGS): libraries have some at every start."""
    if any(action == "error" for action, *_ in warnings.filters):
        warnings.simplefilter("default")


def take_signals(end: Handler) -> None:
    """Have a closed terminal call `end`, unless the app was started to outlive it (nohup).

    SIGUSR1 and SIGUSR2, which would end a process that does not expect them, write to standard error where every
    thread is: what to send when nothing moves.
    """
    if hasattr(signal, HANG_UP) and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, end)
    for name in STACKS:
        if hasattr(signal, name) and hasattr(faulthandler, "register"):
            faulthandler.register(getattr(signal, name), file=sys.stderr, all_threads=True)


def is_hang_up(number: int) -> bool:
    """True for the signal of a terminal that closes."""
    return signal.Signals(number).name == HANG_UP


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True
