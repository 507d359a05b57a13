"""Signs of life from a stream that may be silent for long: Gradio notices that a visitor has left only at a yield."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import TypeVar

T = TypeVar("T")

HEARTBEAT_SECONDS = 0.5


async def with_heartbeat(
    items: AsyncGenerator[T, None], seconds: float = HEARTBEAT_SECONDS
) -> AsyncGenerator[T | None, None]:
    """`items` as they come, and None whenever nothing came for `seconds`. Closing it closes `items`."""
    waiting: asyncio.Task[T] | None = None
    try:
        while True:
            waiting = waiting or asyncio.create_task(_next(items))
            done, _ = await asyncio.wait({waiting}, timeout=seconds)
            if not done:
                yield None
                continue
            try:
                item = waiting.result()
            except StopAsyncIteration:
                return
            waiting = None
            yield item
    finally:
        if waiting is not None:
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
        await items.aclose()


async def _next(items: AsyncGenerator[T, None]) -> T:
    return await anext(items)
