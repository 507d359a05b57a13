"""What a request must meet to be good: milliseconds for people, seconds here."""

from __future__ import annotations

import math
from dataclasses import dataclass

from myserve_ui.documents import Number
from myserve_ui.errors import InvalidRequestError


@dataclass(frozen=True, slots=True)
class Limits:
    """What a request must meet to be good; seconds, None for no limit."""

    ttft: Number | None = None
    tpot: Number | None = None
    e2e: Number | None = None


def interactive_limits() -> Limits:
    """What a person who waits for an answer wants: 500 ms and 30 ms."""
    return Limits(0.5, 0.03)


def server_limits() -> Limits:
    """What a busy server may take: 2 s and 100 ms."""
    return Limits(2.0, 0.1)


def parse_limits(text: str) -> Limits:
    """ "interactive", "server", or milliseconds of TTFT, TPOT and E2E: "500,30,-". Raises InvalidRequestError."""
    named = {"interactive": interactive_limits, "server": server_limits}
    if text in named:
        return named[text]()
    try:
        values = [None if word.strip() in ("-", "") else float(word) / 1000 for word in text.split(",")]
    except ValueError:
        values = []
    if not 1 <= len(values) <= 3 or not all(value is None or 0 < value < math.inf for value in values):
        raise InvalidRequestError(
            f"limits are interactive, server, or milliseconds such as 500,30,- ; got {text[:40]!r}.", param="limits"
        )
    return Limits(*[*values, None, None, None][:3])


def write_limits(limits: Limits) -> str:
    """As `parse_limits` reads them."""
    for name, known in (("server", server_limits()), ("interactive", interactive_limits())):
        if limits == known:
            return name
    return ",".join("-" if value is None else f"{1000 * value:g}" for value in (limits.ttft, limits.tpot, limits.e2e))
