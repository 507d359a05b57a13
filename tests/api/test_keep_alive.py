"""Signs of life in a stream with nothing to say: comments, and not many of them."""

from __future__ import annotations

from collections.abc import AsyncIterator

from myserve_ui.api.sse import KEEP_ALIVE, data_event, thin_keep_alives

EVENT = data_event({"a": "é\u2028"})


async def replay(events: list[tuple[float, bytes]]) -> list[bytes]:
    """What is left of `events`, each given with the time at which it comes."""
    now = [0.0]

    async def source() -> AsyncIterator[bytes]:
        for moment, event in events:
            now[0] = moment
            yield event

    return [event async for event in thin_keep_alives(source(), clock=lambda: now[0], every=10.0)]


async def test_keep_alives_come_only_after_silence() -> None:
    beats = [(float(second), KEEP_ALIVE) for second in range(1, 26)]
    assert await replay(beats) == [KEEP_ALIVE, KEEP_ALIVE]


async def test_an_event_starts_the_silence_anew() -> None:
    assert await replay([(9.0, EVENT), (15.0, KEEP_ALIVE), (18.9, KEEP_ALIVE), (19.0, KEEP_ALIVE)]) == [
        EVENT,
        KEEP_ALIVE,
    ]


def test_an_event_is_one_line_of_ascii_and_a_blank_line() -> None:
    assert EVENT == b'data: {"a":"\\u00e9\\u2028"}\n\n'
