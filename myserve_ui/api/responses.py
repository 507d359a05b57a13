"""How answers go out: as JSON, or as bytes while they come; from the cache if the client likes; never to nobody."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Any, Generic, TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from myserve_ui.core.requests import ChatRequest, CompletionRequest
from myserve_ui.errors import MyServeError
from myserve_ui.serving.request_stream import StreamGroup

logger = logging.getLogger(__name__)

T = TypeVar("T")
Asked = TypeVar("Asked", ChatRequest, CompletionRequest)
Running = TypeVar("Running")
"""What a started request is read from."""

JsonObject = Mapping[str, object]
CACHE_HEADER = "x-cache"
STREAM_HEADERS = {"cache-control": "no-cache", "x-accel-buffering": "no"}
"""Nobody between us and the client may store or collect the pieces."""


class ClientGoneError(Exception):
    """The client left before its answer was complete; there is nobody to tell."""


def encode_json(payload: JsonObject) -> bytes:
    """`payload` in plain ASCII, so that no line separator or half character can break a client.

    Raises ValueError for NaN and infinities, which JSON cannot say.
    """
    return json.dumps(payload, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode("ascii")


def json_response(payload: JsonObject, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A response with `payload` as its JSON body."""
    return Response(encode_json(payload), status, dict(headers or {}), media_type="application/json")


async def while_connected(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`. If the client leaves first, `work` is cancelled and ClientGoneError raised.

    `receive` must have given the whole body already. Whatever happens, `work` has ended when this returns.
    """
    working = asyncio.create_task(work)
    leaving = asyncio.create_task(_disconnect(receive))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientGoneError
        return working.result()
    finally:
        working.cancel()
        leaving.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


async def _disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


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


def with_cache(asked: Asked, request: Request) -> Asked:
    """`asked` with the caller as the cache's owner, unless `Cache-Control: no-store` passes the cache by."""
    directives = request.headers.get("cache-control", "").lower().split(",")
    if "no-store" in {directive.strip() for directive in directives}:
        return asked
    return replace(asked, cache_response=True, cache_owner=_owner(request))


def cache_header(group: StreamGroup) -> Mapping[str, str]:
    """HIT if all that is answered was at hand."""
    return {CACHE_HEADER: "HIT" if all(stream.from_cache for stream in group.streams) else "MISS"}


def _owner(request: Request) -> str:
    """A digest of the API key, so that the key itself is kept nowhere."""
    return hashlib.sha256(request.headers.get("authorization", "").encode()).hexdigest()
