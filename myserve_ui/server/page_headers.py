"""What every answer tells a browser to keep to: the page and what it shows come from this server alone."""

from __future__ import annotations

from types import MappingProxyType

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = (
    "default-src 'self'; "
    # Gradio's page has its configuration in a script of its own, and makes functions of the templates of its HTML.
    "script-src 'self' 'unsafe-inline' 'unsafe-eval'; "
    "style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; "
    "media-src 'self' data: blob:; "
    "font-src 'self' data:; "
    "connect-src 'self'; "
    "worker-src 'self' blob:; "
    "frame-src 'none'; "
    "object-src 'none'; "
    "base-uri 'self'; "
    "form-action 'self'; "
    "frame-ancestors 'self'"
)
"""Who may give what to the page. What a model writes ends up in it, and could call home with what was said to it."""

HEADERS = MappingProxyType(
    {
        "content-security-policy": POLICY,
        "referrer-policy": "same-origin",
        "x-content-type-options": "nosniff",
        "x-dns-prefetch-control": "off",  # the name of a linked host is a message too
    }
)


class PageHeaders:
    """ASGI middleware: HEADERS on every answer, unless the answer brings its own."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, send_with_headers)
