"""What signals beside SIGINT and SIGTERM, which uvicorn takes, do to the app."""

from __future__ import annotations

import faulthandler
import signal
import sys
from collections.abc import Callable
from types import FrameType

Handler = Callable[[int, FrameType | None], None]

HANG_UP = "SIGHUP"
"""Sent when a terminal closes, twice where a shell and the system both send it. Windows has none."""
STACKS = ("SIGUSR1", "SIGUSR2")


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
