"""Server-sent events: one `data:` line and a blank line each; comments keep a silent connection open."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

from myserve_ui.api.wire_json import JsonObject, encode_json

DONE = b"data: [DONE]\n\n"
KEEP_ALIVE = b": keep-alive\n\n"
KEEP_ALIVE_SECONDS = 10.0
"""Proxies commonly cut a connection after 30 to 60 silent seconds."""


def data_event(payload: JsonObject) -> bytes:
    """One event with `payload` as JSON; JSON in ASCII has no line break, so one line always holds it."""
    return b"data: " + encode_json(payload) + b"\n\n"


async def thin_keep_alives(
    events: AsyncIterator[bytes], *, clock: Callable[[], float], every: float = KEEP_ALIVE_SECONDS
) -> AsyncIterator[bytes]:
    """`events` without the keep-alives that come less than `every` seconds after the last event sent."""
    last_sent = clock()
    async for event in events:
        if event is KEEP_ALIVE and clock() - last_sent < every:
            continue
        last_sent = clock()
        yield event
