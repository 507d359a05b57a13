"""The border where exceptions become answers: one JSON shape for every error, and nothing of the inside in it."""

from __future__ import annotations

import logging

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from myserve_ui.api.refusals import ClientGoneError, MethodNotAllowedError
from myserve_ui.api.wire_json import JsonObject, json_response
from myserve_ui.errors import AuthenticationError, MyServeError

logger = logging.getLogger(__name__)

MAX_MESSAGE_CHARS = 1000
INTERNAL_MESSAGE = "The server failed to handle this request; the reason is in its log."


def error_payload(error: MyServeError) -> JsonObject:
    """`error` in OpenAI's shape, all four keys."""
    detail = {
        "message": error.message[:MAX_MESSAGE_CHARS],
        "type": error.type,
        "param": error.param,
        "code": error.code,
    }
    return {"error": detail}


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
        except ClientGoneError:
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
