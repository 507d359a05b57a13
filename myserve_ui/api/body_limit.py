"""Bounds the size of a request's body while it is being read, so that a large one costs no memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from myserve_ui.api.error_replies import error_payload
from myserve_ui.api.own_path import own_path
from myserve_ui.api.refusals import BodyTooLargeError
from myserve_ui.api.wire_json import encode_json

MAX_DISCARDED_BYTES = 256 * 2**20
MAX_DISCARD_SECONDS = 10.0


class BodyLimit:
    """ASGI middleware: a body over `max_bytes` is answered with 413, except on paths with a limit of their own."""

    def __init__(self, app: ASGIApp, *, max_bytes: int, is_exempt: Callable[[str], bool]) -> None:
        self._app = app
        self._max_bytes = max_bytes
        self._is_exempt = is_exempt

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or self._is_exempt(own_path(scope)):
            await self._app(scope, receive, send)
            return
        declared = Headers(scope=scope).get("content-length", "")
        counted = _CountedReceive(receive, self._max_bytes)
        try:
            if declared.isdecimal() and int(declared) > self._max_bytes:
                raise counted.too_large()
            await self._app(scope, counted, send)
        except BodyTooLargeError as error:
            await _refuse_and_discard(error, receive, send)


class _CountedReceive:
    def __init__(self, receive: Receive, max_bytes: int) -> None:
        self._receive = receive
        self._max_bytes = max_bytes
        self._read = 0

    async def __call__(self) -> Message:
        message = await self._receive()
        self._read += len(message.get("body", b""))
        if self._read > self._max_bytes:
            raise self.too_large()
        return message

    def too_large(self) -> BodyTooLargeError:
        limit = f"{self._max_bytes / 2**20:g} MiB"
        return BodyTooLargeError(f"The body is larger than the limit of {limit}; send a shorter request.")


async def _refuse_and_discard(error: BodyTooLargeError, receive: Receive, send: Send) -> None:
    """Answer, then throw away what the client is still sending: a socket closed before that loses the answer."""
    body = encode_json(error_payload(error))
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": True})
    with suppress(TimeoutError):
        await asyncio.wait_for(_discard(receive), MAX_DISCARD_SECONDS)
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _discard(receive: Receive) -> None:
    discarded = 0
    while discarded < MAX_DISCARDED_BYTES:
        message = await receive()
        discarded += len(message.get("body", b""))
        if not message.get("more_body", False):
            return
