"""Where a proxy serves the app: the prefix that the operator names, or that a trusted proxy tells with each request.

A proxy may strip its prefix from the path or leave it. Inside, every path has it, and the scope says how long it is, as
ASGI wants it; so links of the page lead back through the proxy.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, cast

from starlette.datastructures import Headers
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

HEADER = "x-forwarded-prefix"
_PREFIX = re.compile(r"(?:/[A-Za-z0-9._~-]+)+", re.ASCII)
_LONGEST = 200


def behind_proxies(app: ASGIApp, root_path: str, *, trusted: list[str] | str) -> ASGIApp:
    """`app` as proxies see it. `trusted`: addresses of those whose X-Forwarded-* are believed, uvicorn's by default."""
    inner = ProxyHeadersMiddleware(cast(Any, app), trusted_hosts=trusted)
    return RootPath(
        cast(ASGIApp, inner), root_path=root_path, is_trusted=lambda address: address in inner.trusted_hosts
    )


class RootPath:
    """ASGI middleware, to stand outside of what puts a client's address in place of the proxy's."""

    def __init__(self, app: ASGIApp, *, root_path: str, is_trusted: Callable[[str], bool]) -> None:
        """`root_path` for every request; if it is empty, what comes from an address that `is_trusted` may name one."""
        self._app = app
        self._root_path = root_path
        self._is_trusted = is_trusted

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket") or not (root := self._root_path or self._told(scope)):
            await self._app(scope, receive, send)
            return
        path = str(scope["path"])
        if path == root and scope["type"] == "http":  # what the page asks for is relative to the slash
            await RedirectResponse(f"{root}/")(scope, receive, send)
            return
        if not path.startswith(f"{root}/"):
            scope = {**scope, "path": root + path, "raw_path": root.encode() + scope.get("raw_path", path.encode())}
        await self._app({**scope, "root_path": root}, receive, send)

    def _told(self, scope: Scope) -> str:
        if not scope.get("client") or not self._is_trusted(scope["client"][0]):
            return ""
        prefix = Headers(scope=scope).get(HEADER, "").rstrip("/")
        return prefix if len(prefix) <= _LONGEST and _PREFIX.fullmatch(prefix) else ""
