"""How the app logs: one line each, control characters escaped, and no noise from a shutdown that went as it should."""

from __future__ import annotations

import asyncio
import logging

FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
OWN_LOGGER = "myserve_ui"


class OneLineFormatter(logging.Formatter):
    """Nobody can forge a line, or move a terminal's cursor, with text that ends up in a message."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        return escape_control_characters(super().formatMessage(record))


class ShutdownNoise(logging.Filter):
    """Drops what uvicorn says when it cuts the streams of open pages."""

    def filter(self, record: logging.LogRecord) -> bool:
        cancelled = record.exc_info is not None and isinstance(record.exc_info[1], asyncio.CancelledError)
        return not cancelled and "timeout graceful shutdown exceeded" not in str(record.msg)


def set_up_logging(level: str) -> None:
    """The project's own lines from `level` on, those of libraries from warnings on, to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(OneLineFormatter(FORMAT))
    handler.addFilter(ShutdownNoise())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger(OWN_LOGGER).setLevel(level.upper())


def escape_control_characters(text: str) -> str:
    """`text` with every control character, line breaks included, written as an escape."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)
