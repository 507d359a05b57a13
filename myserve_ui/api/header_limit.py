"""Bounds the size of a request's headers."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from myserve_ui.api.refusals import HeadersTooLargeError

MAX_HEADER_BYTES = 32 * 1024


class HeaderLimit:
    """ASGI middleware: headers that are too large together are answered with 431."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        size = sum(len(name) + len(value) for name, value in scope.get("headers", ()))
        if size > MAX_HEADER_BYTES:
            raise HeadersTooLargeError(f"The headers have {size} bytes, more than the limit of {MAX_HEADER_BYTES}.")
        await self._app(scope, receive, send)
