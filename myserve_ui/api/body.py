"""Reads a request's body into a JSON object, or refuses it in words that say what is wrong."""

from __future__ import annotations

import codecs
import json
import re
from typing import Any

from starlette.requests import Request

from myserve_ui.api.refusals import UnsupportedMediaTypeError
from myserve_ui.api.validation import shown_name
from myserve_ui.core.strict_json import NoJsonNumberError, NumberTooLargeError, read_json
from myserve_ui.errors import InvalidRequestError

_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")


async def read_json_object(request: Request) -> dict[str, Any]:
    """The body of `request`, parsed. Raises InvalidRequestError or UnsupportedMediaTypeError."""
    _require_json_type(request.headers.get("content-type"))
    return parse_json_object(await request.body())


def parse_json_object(body: bytes) -> dict[str, Any]:
    """The JSON object in `body`; strict: UTF-8, finite numbers, whole characters, an object at the top."""
    text = _decode(body)
    value = _parse(text)
    if not isinstance(value, dict):
        raise InvalidRequestError(f"The body must be a JSON object, got {_kind(value)}.")
    if _SURROGATE_ESCAPE.search(text):
        _refuse_lone_surrogates(value)
    return value


def _require_json_type(content_type: str | None) -> None:
    media_type = (content_type or "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        sent = f"'{media_type[:60]}'" if media_type else "none"
        raise UnsupportedMediaTypeError(f"The body must have the content type application/json, got {sent}.")


def _decode(body: bytes) -> str:
    if not body.strip():
        raise InvalidRequestError("The body is empty; send a JSON object.")
    if body.startswith(codecs.BOM_UTF8):
        raise InvalidRequestError("The body is not valid JSON: it begins with a byte order mark; send it without.")
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidRequestError(f"The body is not valid UTF-8 (byte {error.start}).") from None


def _parse(text: str) -> Any:
    try:
        return read_json(text)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise InvalidRequestError(f"The body is not valid JSON: {error.msg} ({where}).") from None
    except RecursionError:
        raise InvalidRequestError("The body is nested too deeply.") from None
    except NoJsonNumberError as error:
        raise InvalidRequestError(f"The body is not valid JSON: {error} is not a JSON number.") from None
    except NumberTooLargeError as error:
        raise InvalidRequestError(f"The body has a number out of range: {str(error)[:40]}.") from None
    except ValueError:
        # Python refuses to read whole numbers of thousands of digits.
        raise InvalidRequestError("The body has a number with too many digits.") from None


def _refuse_lone_surrogates(root: dict[str, Any]) -> None:
    waiting: list[tuple[str, Any]] = [("", root)]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, str) and not _is_whole(value):
            raise InvalidRequestError(
                f"{path or 'a key'} has half of a surrogate pair, which is not text.", param=path or None
            )
        if isinstance(value, list):
            waiting += [(f"{path}[{index}]", item) for index, item in enumerate(value)]
        if isinstance(value, dict):
            waiting += [("", key) for key in value]
            waiting += [
                (f"{path}.{shown_name(key)}" if path else shown_name(key), item)
                for key, item in value.items()
                if _is_whole(key)
            ]


def _is_whole(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _kind(value: object) -> str:
    names = {
        type(None): "null",
        bool: "a boolean",
        int: "a number",
        float: "a number",
        str: "a string",
        list: "an array",
    }
    return names[type(value)]
