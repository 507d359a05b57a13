"""The border where exceptions become answers: one JSON shape for every error, and nothing of the inside in it."""

from __future__ import annotations

import json
import logging
import re

from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from myserve_ui.api.refusals import ClientGoneError, MethodNotAllowedError
from myserve_ui.api.wire_json import JsonObject, json_response
from myserve_ui.errors import AuthenticationError, MyServeError

logger = logging.getLogger(__name__)

MAX_MESSAGE_CHARS, MAX_PARAM_CHARS = 1000, 200
BYTES_PER_CHAR = 6
"""Of JSON in ASCII, on average at most: what has more, as a text of emoji does, is cut sooner."""
LONG_WORD = re.compile(r"\S{161,}")
SHOWN_CHARS = 80
"""Of a word that is too long for any of ours: a client's own."""
INTERNAL_MESSAGE = "The server failed to handle this request; the reason is in its log."


def error_payload(error: MyServeError) -> JsonObject:
    """`error` in OpenAI's shape, all four keys."""
    detail = {
        "message": _shortened(error.message, MAX_MESSAGE_CHARS),
        "type": error.type,
        "param": None if error.param is None else _shortened(error.param, MAX_PARAM_CHARS),
        "code": error.code,
    }
    return {"error": detail}


def _shortened(text: str, max_chars: int) -> str:
    """`text` without what is too long to be said back; a client gets its own names and values no further."""
    text = LONG_WORD.sub(lambda word: word[0][:SHOWN_CHARS] + "…", text[: 2 * max_chars])[:max_chars]
    if len(json.dumps(text)) <= max_chars * BYTES_PER_CHAR:
        return text
    return text[: max_chars // 2]


def error_response(error: MyServeError) -> Response:
    """`error` with its status and the headers that go with it."""
    return json_response(error_payload(error), status=error.status, headers=error_headers(error))


def error_headers(error: MyServeError) -> dict[str, str]:
    headers = {}
    if error.retry_after is not None:
        headers["retry-after"] = str(error.retry_after)
    if isinstance(error, AuthenticationError):
        headers["www-authenticate"] = "Bearer"
    if isinstance(error, MethodNotAllowedError):
        headers["allow"] = error.allow
    return headers


class ErrorBoundary:
    """ASGI middleware that answers what the app raises. Once an answer has begun it can only be broken off."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        watch = _SendWatch(send)
        try:
            await self._app(scope, receive, watch)
        except (ClientGoneError, ClientDisconnect):
            logger.debug("the client left %s", scope["path"])
        except Exception as error:
            if watch.started:
                raise
            await error_response(_as_reply(error, scope["path"]))(scope, receive, send)


class _SendWatch:
    def __init__(self, send: Send) -> None:
        self._send = send
        self.started = False

    async def __call__(self, message: Message) -> None:
        self.started = True
        await self._send(message)


def _as_reply(error: Exception, path: str) -> MyServeError:
    if isinstance(error, MyServeError):
        return error
    logger.error("unexpected error in %s", path, exc_info=error)
    return MyServeError(INTERNAL_MESSAGE)
