"""The Host names this server stands for; a request for any other is refused."""

from __future__ import annotations

from collections.abc import Collection

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from myserve_ui.api.refusals import HostNotAllowedError
from myserve_ui.core.machine import is_loopback


class HostGuard:
    """ASGI middleware: only known Host names are served, so that a web page cannot reach in by rebinding its name."""

    def __init__(self, app: ASGIApp, *, bind_host: str, allowed_hosts: Collection[str]) -> None:
        self._app = app
        self._allowed = {name.lower() for name in allowed_hosts}
        # A server opened to the network is called by names that only its operator knows.
        self._serves_any = "*" in self._allowed or (not is_loopback(bind_host) and not self._allowed)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket") and not self._serves_any:
            self._require_known(host_name(Headers(scope=scope).get("host", "")))
        await self._app(scope, receive, send)

    def _require_known(self, name: str) -> None:
        if not is_loopback(name) and name not in self._allowed:
            raise HostNotAllowedError(
                f"This server does not answer to the name '{name[:80]}'; --allowed-hosts can allow it."
            )


def host_name(header: str) -> str:
    """The name in a Host header, lower case, without the port and the brackets of an IPv6 address."""
    header = header.strip().lower()
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.partition(":")[0]
