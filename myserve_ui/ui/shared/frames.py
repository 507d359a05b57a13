"""A request's stream at the pace of a reader: text so far and the newest output, at most so many times a second."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable

from myserve_ui.core.outputs import RequestOutput
from myserve_ui.serving.request_stream import RequestStream

FRAME_SECONDS = 0.06
"""More frames than a reader sees only cost the browser its breath."""


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
