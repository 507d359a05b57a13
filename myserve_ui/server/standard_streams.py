"""Output is no reason to die: nobody may be reading it, the disk under it may be full, it may be closed."""

from __future__ import annotations

import io
import os
import sys
import warnings
from contextlib import suppress
from typing import TextIO


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


def flush_streams() -> None:
    """Write out what is left, as far as it can be written."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()


def forgive_warnings() -> None:
    """Show warnings that were to be errors (`python -W error`, PYTHONWARNINGS): libraries have some at every start."""
    if any(action == "error" for action, *_ in warnings.filters):
        warnings.simplefilter("default")


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True
