"""A silent stream gives signs of life, loses nothing, and is closed when its reader leaves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from myserve_ui.ui.shared.streams import with_heartbeat


class Source:
    """Yields 0, 1, 2, each when it is let."""

    def __init__(self) -> None:
        self.let = asyncio.Semaphore(0)
        self.is_closed = False

    async def items(self) -> AsyncGenerator[int, None]:
        try:
            for number in range(3):
                await self.let.acquire()
                yield number
        finally:
            self.is_closed = True


async def test_every_item_comes_once_with_beats_between() -> None:
    source, seen = Source(), []
    async for item in with_heartbeat(source.items(), 0.001):
        seen.append(item)
        if item is None:
            source.let.release()
    assert [item for item in seen if item is not None] == [0, 1, 2]
    assert seen[0] is None


async def test_leaving_closes_the_source_while_it_waits() -> None:
    source = Source()
    beats = with_heartbeat(source.items(), 0.001)
    assert await anext(beats) is None
    await beats.aclose()
    assert source.is_closed


async def test_a_failure_comes_through() -> None:
    async def failing() -> AsyncGenerator[int, None]:
        yield 1
        raise ValueError("no")

    beats = with_heartbeat(failing())
    assert await anext(beats) == 1
    with pytest.raises(ValueError, match="no"):
        await anext(beats)
