"""What is the browser's: its paths, beside the API's, and what every answer tells it to keep to."""

from __future__ import annotations

from types import MappingProxyType

from starlette.datastructures import MutableHeaders
from starlette.types import Message, Receive, Scope, Send

from myserve_ui.api.middleware import HttpMiddleware

FIRST_PARTS = frozenset(
    {
        "assets",
        "config",
        "favicon.ico",
        "gradio_api",
        "login",
        "logout",
        "manifest.json",
        "monitoring",
        "pwa_icon",
        "robots.txt",
        "static",
        "svelte",
        "theme.css",
    }
)
"""What Gradio calls its internal routes, written down here: the API is served before Gradio has been imported."""

UNUSED_PATHS = (
    "/gradio_api/proxy=",
    "/gradio_api/file=http",
    "/gradio_api/file/http",
    "/gradio_api/runs",
    "/gradio_api/stream/",
    "/gradio_api/custom_component/",
    "/gradio_api/vibe-",
    "/gradio_api/undo-vibe-",
    "/gradio_api/dev/",
    "/gradio_api/deep_link",
    "/monitoring",
)
"""Gradio's routes that the page does not use: they fetch from other sites, run code, or pass the queue by."""

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


def is_browser_path(path: str) -> bool:
    """True for what the browser app serves."""
    if path.lower().startswith(UNUSED_PATHS):
        return False
    return path == "/" or path.removeprefix("/").partition("/")[0] in FIRST_PARTS


class PageHeaders(HttpMiddleware):
    """HEADERS on every answer, unless the answer brings its own."""

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self.app(scope, receive, send_with_headers)
