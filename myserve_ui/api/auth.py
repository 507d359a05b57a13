"""Who may come in: API keys, compared in constant time."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Iterable

from pydantic import SecretStr
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from myserve_ui.api.own_path import own_path
from myserve_ui.errors import AuthenticationError

OPEN_PATHS = frozenset({"/live", "/health", "/healthz"})
"""Probes carry no key."""


class KeyRing:
    """The keys that open the app; an empty ring is an open door."""

    def __init__(self, keys: Iterable[SecretStr]) -> None:
        self._digests = [_digest(key.get_secret_value().encode()) for key in keys]

    def __bool__(self) -> bool:
        return bool(self._digests)

    def accepts(self, key: bytes) -> bool:
        """True if `key` is on the ring. Digests are compared, and all of them, so that the time tells nothing."""
        candidate = _digest(key)
        return sum(hmac.compare_digest(candidate, digest) for digest in self._digests) > 0


class ApiKeyGuard:
    """ASGI middleware: every path needs `Authorization: Bearer KEY`, but for probes and what `is_exempt` says."""

    def __init__(self, app: ASGIApp, *, keys: KeyRing, is_exempt: Callable[[str], bool]) -> None:
        self._app = app
        self._keys = keys
        self._is_exempt = is_exempt

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and self._keys and not self._is_open(own_path(scope)):
            self._require_key(Headers(scope=scope).get("authorization", ""))
        await self._app(scope, receive, send)

    def _is_open(self, path: str) -> bool:
        return path in OPEN_PATHS or self._is_exempt(path)

    def _require_key(self, header: str) -> None:
        scheme, _, key = header.partition(" ")
        if scheme.lower() != "bearer" or not key.strip():
            raise AuthenticationError("This server needs an API key: send the header Authorization: Bearer KEY.")
        # Starlette reads header bytes as latin-1; going back gives the bytes that were sent.
        if not self._keys.accepts(key.strip().encode("latin-1")):
            raise AuthenticationError("The API key is wrong.")


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()
