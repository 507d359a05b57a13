"""Log lines stay lines, and a quiet shutdown stays quiet."""

from __future__ import annotations

import asyncio
import logging
import sys

from myserve_ui.server.log_lines import FORMAT, OneLineFormatter, ShutdownNoise, escape_control_characters


def make_record(message: str, error: BaseException | None = None) -> logging.LogRecord:
    info = (type(error), error, None) if error else None
    return logging.LogRecord("x", logging.ERROR, __file__, 1, message, None, info)


def test_a_message_cannot_forge_a_line() -> None:
    line = OneLineFormatter(FORMAT).format(make_record("a\r\nERROR root: b\x1b[2J\x00\u2028é🙂"))
    assert len(line.splitlines()) == 1
    assert line.endswith(r"a\r\nERROR root: b\x1b[2J\x00\u2028é🙂")


def test_a_traceback_keeps_its_lines() -> None:
    try:
        raise ValueError("x")
    except ValueError:
        record = logging.LogRecord("x", logging.ERROR, __file__, 1, "failed", None, sys.exc_info())
    assert OneLineFormatter(FORMAT).format(record).endswith("\nValueError: x")


def test_only_cancellations_are_dropped() -> None:
    noise = ShutdownNoise()
    assert not noise.filter(make_record("Exception in ASGI application", asyncio.CancelledError()))
    assert noise.filter(make_record("Exception in ASGI application", ValueError()))
    assert noise.filter(make_record("anything"))


def test_plain_text_is_left_alone() -> None:
    assert escape_control_characters("grün, 日本 🙂") == "grün, 日本 🙂"
