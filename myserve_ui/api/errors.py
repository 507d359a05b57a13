"""Errors as the wire has them: refusals that only an HTTP door can give, sentences for wrong fields, one JSON shape."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from fastapi.exceptions import RequestValidationError
from pydantic_core import ErrorDetails, PydanticCustomError
from starlette.requests import Request
from starlette.responses import Response
from typing_extensions import TypedDict

from myserve_ui.api.responses import json_response
from myserve_ui.errors import AuthenticationError, InvalidRequestError, MyServeError

INTERNAL_MESSAGE = "The server failed to handle this request; the reason is in its log."
MAX_MESSAGE_CHARS, MAX_PARAM_CHARS, MAX_NAME_CHARS = 1000, 200, 60
BYTES_PER_CHAR = 6
"""Of JSON in ASCII, on average at most: what has more, as a text of emoji does, is cut sooner."""
LONG_WORD = re.compile(r"\S{161,}")
SHOWN_CHARS = 80
"""Of a word that is too long for any of ours: a client's own."""

REFUSAL = "refusal"
PHRASES: Mapping[str, str] = MappingProxyType(
    {
        "missing": "is required",
        "model_type": "must be an object",
        "model_attributes_type": "must be an object",
        "string_type": "must be a string",
        "string_unicode": "must be a string of whole characters",
        "string_too_short": "must not be empty",
        "int_type": "must be a whole number",
        "float_type": "must be a number",
        "bool_type": "must be true or false",
        "list_type": "must be an array",
        "dict_type": "must be an object",
        "literal_error": "must be one of {expected}",
        "too_short": "needs at least {min_length} item(s)",
        "too_long": "takes at most {max_length} item(s)",
        "greater_than_equal": "must be at least {ge}",
        "less_than_equal": "must be at most {le}",
    }
)
"""Pydantic's own messages name Python classes."""


class PathNotFoundError(InvalidRequestError):
    """No route has this path."""

    status = 404
    code = "not_found"


class MethodNotAllowedError(InvalidRequestError):
    """The path exists, the method does not; `allow` lists those that do."""

    status = 405
    code = "method_not_allowed"

    def __init__(self, message: str, *, allow: str) -> None:
        super().__init__(message)
        self.allow = allow


class BodyTooLargeError(InvalidRequestError):
    """The body is over the limit."""

    status = 413
    code = "body_too_large"


class HeadersTooLargeError(InvalidRequestError):
    """The headers are over the limit."""

    status = 431
    code = "headers_too_large"


class UnsupportedMediaTypeError(InvalidRequestError):
    """The body is not declared as JSON."""

    status = 415
    code = "unsupported_media_type"


class HostNotAllowedError(InvalidRequestError):
    """The Host header names a host that this server does not stand for."""

    status = 403
    type = "permission_error"
    code = "host_not_allowed"


class ErrorDetail(TypedDict):
    message: str
    type: str
    param: str | None
    code: str | None


class ErrorReply(TypedDict):
    """Every answer that is not a success, in OpenAI's shape."""

    error: ErrorDetail


def error_reply(error: MyServeError) -> ErrorReply:
    """`error` in OpenAI's shape, all four keys."""
    return {
        "error": {
            "message": _shortened(error.message, MAX_MESSAGE_CHARS),
            "type": error.type,
            "param": None if error.param is None else _shortened(error.param, MAX_PARAM_CHARS),
            "code": error.code,
        }
    }


def error_response(error: MyServeError) -> Response:
    """`error` with its status and the headers that go with it."""
    return json_response(error_reply(error), status=error.status, headers=error_headers(error))


def error_headers(error: MyServeError) -> dict[str, str]:
    headers = {}
    if error.retry_after is not None:
        headers["retry-after"] = str(error.retry_after)
    if isinstance(error, AuthenticationError):
        headers["www-authenticate"] = "Bearer"
    if isinstance(error, MethodNotAllowedError):
        headers["allow"] = error.allow
    return headers


async def answer_wrong_fields(_request: Request, error: Exception) -> Response:
    """Handler of RequestValidationError: the first wrong field, by its path, in a sentence."""
    assert isinstance(error, RequestValidationError)
    return error_response(_wrong_field(error.errors()[0]))


def refusal(reason: str) -> PydanticCustomError:
    """What a validator raises: the message will read "`field` `reason`."."""
    return PydanticCustomError(REFUSAL, "{reason}", {"reason": reason})


def field_path(location: Sequence[int | str]) -> str:
    """("messages", 0, "content") as OpenAI writes it: messages[0].content."""
    path = ""
    for part in location:
        path += f"[{part}]" if isinstance(part, int) else f".{shown_name(part)}" if path else shown_name(part)
    return path


def shown_name(key: str) -> str:
    """A key of the client's own, as far as it is said back."""
    return key if len(key) <= MAX_NAME_CHARS else f"{key[:MAX_NAME_CHARS]}…"


def describe(value: object) -> str:
    """A short, safe picture of what was sent: scalars as JSON says them, never more than 40 characters."""
    if value is None or isinstance(value, bool):
        return str(value).lower().replace("none", "null")
    if isinstance(value, str):
        return f"'{value[:40]}…'" if len(value) > 40 else f"'{value}'"
    if isinstance(value, int | float):
        return str(value)[:40] if not isinstance(value, int) or value.bit_length() < 200 else "a huge number"
    return "an array" if isinstance(value, list) else "an object"


def _wrong_field(error: ErrorDetails) -> InvalidRequestError:
    path = field_path(error["loc"][1:])  # FastAPI puts the word "body" in front
    return InvalidRequestError(f"{path or 'The body'} {_phrase(error)}.", param=path or None)


def _phrase(error: ErrorDetails) -> str:
    context = error.get("ctx", {})
    if error["type"] == REFUSAL:
        return str(context["reason"])
    words = PHRASES.get(error["type"], "is not valid").format(**context)
    if error["type"] == "missing":
        return words
    return f"{words}, got {context.get('actual_length', describe(error['input']))}"


def _shortened(text: str, max_chars: int) -> str:
    """`text` without what is too long to be said back; a client gets its own names and values no further."""
    text = LONG_WORD.sub(lambda word: word[0][:SHOWN_CHARS] + "…", text[: 2 * max_chars])[:max_chars]
    if len(json.dumps(text)) <= max_chars * BYTES_PER_CHAR:
        return text
    return text[: max_chars // 2]
