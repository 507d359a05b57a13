"""A response whose bytes come from a running request, which ends when the client leaves."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Generic, TypeVar

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from myserve_ui.api.client_presence import while_connected
from myserve_ui.errors import MyServeError

logger = logging.getLogger(__name__)

Running = TypeVar("Running")
"""What a started request is read from."""

STREAM_HEADERS = {"cache-control": "no-cache", "x-accel-buffering": "no"}
"""Nobody between us and the client may store or collect the pieces."""


class StreamedReply(Response, Generic[Running]):
    """Starts a request, sends the pieces of its answer as they come, and closes it whatever happens.

    The status line goes out with the first piece, so that an error before it still gets a status of its own. After
    it the only way to say that an answer is not whole is to break the connection off.
    """

    def __init__(
        self,
        start: Callable[[], Awaitable[AbstractAsyncContextManager[Running]]],
        pieces: Callable[[Running], AsyncIterator[bytes]],
        *,
        media_type: str,
        headers: Callable[[Running], Mapping[str, str]] = lambda _running: {},
    ) -> None:
        super().__init__(headers=STREAM_HEADERS, media_type=media_type)
        del self.headers["content-length"]
        self._start_request = start
        self._pieces = pieces
        self._headers_of = headers
        self._started = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await while_connected(receive, self._answer(send))

    async def _answer(self, send: Send) -> None:
        try:
            async with await self._start_request() as running:
                self.headers.update(self._headers_of(running))
                async for piece in self._pieces(running):
                    await self._begin(send)
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
        except MyServeError as error:
            if not self._started:
                raise
            logger.warning("a stream was broken off: %s", error)
            return
        await self._begin(send)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _begin(self, send: Send) -> None:
        if not self._started:
            self._started = True
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
