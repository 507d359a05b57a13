"""A response whose bytes come from a running request, which ends when the client leaves."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from myserve_ui.api.client_presence import while_connected
from myserve_ui.errors import MyServeError

if TYPE_CHECKING:
    from myserve_ui.serving.request_stream import RequestStream

logger = logging.getLogger(__name__)

STREAM_HEADERS = {"cache-control": "no-cache", "x-accel-buffering": "no"}
"""Nobody between us and the client may store or collect the pieces."""


class StreamedReply(Response):
    """Sends `pieces` as they come and closes `stream` whatever happens.

    The status line goes out with the first piece, so that an error before it still gets a status of its own. After
    it the only way to say that an answer is not whole is to break the connection off.
    """

    def __init__(self, stream: RequestStream, pieces: AsyncIterator[bytes], *, media_type: str) -> None:
        super().__init__(headers=STREAM_HEADERS, media_type=media_type)
        del self.headers["content-length"]
        self._stream = stream
        self._pieces = pieces
        self._started = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._stream:
            await while_connected(receive, self._send_all(send))

    async def _send_all(self, send: Send) -> None:
        try:
            async for piece in self._pieces:
                await self._start(send)
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        except MyServeError as error:
            if not self._started:
                raise
            logger.warning("a stream was broken off: %s", error)
            return
        await self._start(send)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _start(self, send: Send) -> None:
        if not self._started:
            self._started = True
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
