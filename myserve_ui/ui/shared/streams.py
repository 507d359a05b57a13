"""Streams as a page takes them: at a reader's pace, and with signs of life while nothing happens."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from typing import TypeVar

from myserve_ui.core.outputs import RequestOutput
from myserve_ui.serving.request_stream import RequestStream

T = TypeVar("T")

FRAME_SECONDS = 0.06
"""More frames than a reader sees only cost the browser its breath."""
HEARTBEAT_SECONDS = 0.5
"""Gradio notices that a visitor has left only at a yield."""


async def frames(
    stream: RequestStream, clock: Callable[[], float] = time.monotonic
) -> AsyncGenerator[tuple[str, RequestOutput], None]:
    """(text so far, newest output); the first and the last output always, and signs of life while nothing happens."""
    text, shown_at = "", float("-inf")
    async for output in stream:
        text += output.text_delta
        if output.finish_reason is None and clock() - shown_at < FRAME_SECONDS:
            continue
        shown_at = clock()
        yield text, output


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
