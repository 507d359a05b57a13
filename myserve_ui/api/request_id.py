"""Gives every answer an X-Request-Id: the client's own if it is short and safe, else a new one."""

from __future__ import annotations

import re
import uuid

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADER = "x-request-id"
_SAFE = re.compile(r"[A-Za-z0-9._\-]{1,128}", re.ASCII)


class RequestIdHeader:
    """ASGI middleware. The id is for the client's books only; the engine never uses it as a key."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = safe_request_id(Headers(scope=scope).get(HEADER))

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)[HEADER] = request_id
            await send(message)

        await self._app(scope, receive, send_with_id)


def safe_request_id(sent: str | None) -> str:
    """`sent` if it is at most 128 letters, digits, dots, dashes and underscores; else a new random id."""
    return sent if sent and _SAFE.fullmatch(sent) else uuid.uuid4().hex
