"""What every request passes before its route: an id, the border of errors, guards, and the limit of its body."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import re
import uuid
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress

from pydantic import SecretStr
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from myserve_ui.api.errors import (
    INTERNAL_MESSAGE,
    BodyTooLargeError,
    HeadersTooLargeError,
    HostNotAllowedError,
    error_reply,
    error_response,
)
from myserve_ui.api.responses import ClientGoneError, encode_json
from myserve_ui.core.machine import is_loopback
from myserve_ui.errors import AuthenticationError, MyServeError

logger = logging.getLogger(__name__)

REQUEST_ID = "x-request-id"
SAFE_ID = re.compile(r"[A-Za-z0-9._\-]{1,128}", re.ASCII)
OPEN_PATHS = frozenset({"/live", "/health", "/healthz"})
"""Probes carry no key."""
MAX_HEADER_BYTES = 32 * 1024
MAX_DISCARDED_BYTES = 256 * 2**20
MAX_DISCARD_SECONDS = 10.0

Guard = Callable[[Scope], None]
"""Raises MyServeError for what must not go on."""


def own_path(scope: Scope) -> str:
    """The path as this server knows it: `/v1/models` of `/llm/v1/models` where `/llm` is a proxy's prefix."""
    path, root = str(scope["path"]), str(scope.get("root_path", ""))
    if root and (path == root or path.startswith(f"{root}/")):
        return path[len(root) :] or "/"
    return path


class HttpMiddleware:
    """Base of ASGI middleware that handles HTTP and lets everything else pass."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self.handle(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        raise NotImplementedError


class RequestIdHeader(HttpMiddleware):
    """Every answer has an id, for the client's books only; the engine never uses it as a key."""

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        request_id = safe_request_id(Headers(scope=scope).get(REQUEST_ID))

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)[REQUEST_ID] = request_id
            await send(message)

        await self.app(scope, receive, send_with_id)


def safe_request_id(sent: str | None) -> str:
    """`sent` if it is at most 128 letters, digits, dots, dashes and underscores; else a new random id."""
    return sent if sent and SAFE_ID.fullmatch(sent) else uuid.uuid4().hex


class ErrorBoundary(HttpMiddleware):
    """Answers what the app raises. Once an answer has begun it can only be broken off."""

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        has_begun = False

        async def watched_send(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await self.app(scope, receive, watched_send)
        except (ClientGoneError, ClientDisconnect):
            logger.debug("the client left %s", scope["path"])
        except Exception as error:
            if has_begun:
                raise
            await error_response(_as_reply(error, scope["path"]))(scope, receive, send)


def _as_reply(error: Exception, path: str) -> MyServeError:
    if isinstance(error, MyServeError):
        return error
    logger.error("unexpected error in %s", path, exc_info=error)
    return MyServeError(INTERNAL_MESSAGE)


class Guarded:
    """ASGI middleware: a request goes on if none of `guards` raises."""

    def __init__(self, app: ASGIApp, *, guards: Sequence[Guard]) -> None:
        self._app = app
        self._guards = guards

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket"):
            for guard in self._guards:
                guard(scope)
        await self._app(scope, receive, send)


def header_guard(scope: Scope) -> None:
    """Headers that are too large together are refused with 431."""
    size = sum(len(name) + len(value) for name, value in scope["headers"])
    if size > MAX_HEADER_BYTES:
        raise HeadersTooLargeError(f"The headers have {size} bytes, more than the limit of {MAX_HEADER_BYTES}.")


class HostGuard:
    """Only known Host names are served, so that a web page cannot reach in by rebinding its name."""

    def __init__(self, *, bind_host: str, allowed_hosts: Collection[str]) -> None:
        self._allowed = {name.lower() for name in allowed_hosts}
        # A server opened to the network is called by names that only its operator knows.
        self._serves_any = "*" in self._allowed or (not is_loopback(bind_host) and not self._allowed)

    def __call__(self, scope: Scope) -> None:
        name = "" if self._serves_any else host_name(Headers(scope=scope).get("host", ""))
        if not (self._serves_any or is_loopback(name) or name in self._allowed):
            raise HostNotAllowedError(
                f"This server does not answer to the name '{name[:80]}'; --allowed-hosts can allow it."
            )


def host_name(header: str) -> str:
    """The name in a Host header, lower case, without the port and the brackets of an IPv6 address."""
    header = header.strip().lower()
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.partition(":")[0]


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


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()


class ApiKeyGuard:
    """Every path needs `Authorization: Bearer KEY`, but for probes and what `is_exempt` says."""

    def __init__(self, keys: KeyRing, *, is_exempt: Callable[[str], bool]) -> None:
        self._keys = keys
        self._is_exempt = is_exempt

    def __call__(self, scope: Scope) -> None:
        path = own_path(scope)
        if not self._keys or path in OPEN_PATHS or self._is_exempt(path):
            return
        scheme, _, key = Headers(scope=scope).get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not key.strip():
            raise AuthenticationError("This server needs an API key: send the header Authorization: Bearer KEY.")
        # Starlette reads header bytes as latin-1; going back gives the bytes that were sent.
        if not self._keys.accepts(key.strip().encode("latin-1")):
            raise AuthenticationError("The API key is wrong.")


class BodyLimit(HttpMiddleware):
    """Answers a body over `max_bytes` with 413 while it is read, except on paths with a limit of their own."""

    def __init__(self, app: ASGIApp, *, max_bytes: int, is_exempt: Callable[[str], bool]) -> None:
        super().__init__(app)
        self._max_bytes = max_bytes
        self._is_exempt = is_exempt

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._is_exempt(own_path(scope)):
            await self.app(scope, receive, send)
            return
        declared, num_read = Headers(scope=scope).get("content-length", ""), 0

        async def counted_receive() -> Message:
            nonlocal num_read
            message = await receive()
            num_read += len(message.get("body", b""))
            self._require_room(num_read)
            return message

        try:
            self._require_room(int(declared) if declared.isdecimal() else 0)
            await self.app(scope, counted_receive, send)
        except BodyTooLargeError as error:
            await _refuse_and_discard(error, receive, send)

    def _require_room(self, num_bytes: int) -> None:
        if num_bytes > self._max_bytes:
            limit = f"{self._max_bytes / 2**20:g} MiB"
            raise BodyTooLargeError(f"The body is larger than the limit of {limit}; send a shorter request.")


async def _refuse_and_discard(error: BodyTooLargeError, receive: Receive, send: Send) -> None:
    """Answer, then throw away what the client is still sending: a socket closed before that loses the answer."""
    body = encode_json(error_reply(error))
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
