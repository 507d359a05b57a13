"""How a request's body becomes a typed one: JSON read strictly, and no field ignored that asks for something."""

from __future__ import annotations

import codecs
import json
import logging
import re
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from types import MappingProxyType, NoneType
from typing import Any

from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict
from starlette.requests import Request
from starlette.responses import Response

from myserve_ui.api.errors import UnsupportedMediaTypeError, describe, shown_name
from myserve_ui.api.responses import JsonObject
from myserve_ui.core.strict_json import NoJsonNumberError, NumberTooLargeError, read_json
from myserve_ui.errors import InvalidRequestError

logger = logging.getLogger(__name__)

MAX_LOGGED_NAMES = 200
"""Names come from clients: what is remembered of them is bounded."""
SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
KINDS: Mapping[type, str] = MappingProxyType(
    {
        NoneType: "null",
        bool: "a boolean",
        int: "a number",
        float: "a number",
        str: "a string",
        list: "an array",
    }
)

NEUTRAL_VALUES: Mapping[str, tuple[object, ...]] = MappingProxyType(
    {
        "n": (1,),
        "best_of": (1,),
        "logprobs": (False,),
        "top_logprobs": (0,),
        "prompt_logprobs": (0,),
        "echo": (False,),
        "suffix": ("",),
        "presence_penalty": (0,),
        "frequency_penalty": (0,),
        "repetition_penalty": (1,),
        "length_penalty": (1,),
        "logit_bias": ({},),
        "tools": ([],),
        "tool_choice": ("none", "auto"),
        "functions": ([],),
        "function_call": ("none", "auto"),
        "modalities": ([], ["text"]),
        "audio": (),
        "prediction": (),
        "reasoning_effort": ("none",),
        "web_search_options": (),
        "verbosity": ("medium",),
        "chat_template": (),
        "chat_template_kwargs": ({},),
        "documents": ([],),
        "add_generation_prompt": (True,),
        "use_beam_search": (False,),
        "allowed_token_ids": ([],),
        "bad_words": ([],),
        "guided_json": (),
        "guided_regex": (),
        "guided_choice": (),
        "guided_grammar": (),
        "structured_outputs": (),
        "grammar": ("",),
        "return_token_ids": (False,),
    }
)
"""Field of OpenAI's schema or a usual extension -> the values that ask for nothing. null always asks for nothing."""

HARMLESS_FIELDS = frozenset(
    {
        "user",
        "metadata",
        "store",
        "service_tier",
        "parallel_tool_calls",
        "safety_identifier",
        "prompt_cache_key",
        "prompt_cache_retention",
        "skip_special_tokens",
        "spaces_between_special_tokens",
    }
)
"""Known fields that change no token here: accepted and not used."""


class WireModel(BaseModel):
    """A body, or a part of one: no conversion between types, unknown fields ignored."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")


class JsonRoute(APIRoute):
    """A route that takes its body by our rules; FastAPI then makes the route's own model of it."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        if self.body_field is None:
            return handle
        fields = FieldCheck(self.body_field.field_info.annotation.model_fields)  # type: ignore[union-attr]

        async def read_and_handle(request: Request) -> Response:
            request = JsonRequest(request.scope, request.receive)
            fields.check(await request.json())
            return await handle(request)

        return read_and_handle


class JsonRequest(Request):
    """A request whose body must be a JSON object."""

    _fields: JsonObject | None = None

    async def json(self) -> JsonObject:
        """The body. Raises InvalidRequestError or UnsupportedMediaTypeError."""
        if self._fields is None:
            _require_json_type(self.headers.get("content-type"))
            self._fields = parse_json_object(await self.body())
        return self._fields


class FieldCheck:
    """The fields of a body that its route has not: neutral values pass, any other is refused by name."""

    def __init__(self, built: Collection[str]) -> None:
        self._unbuilt = {name: neutral for name, neutral in NEUTRAL_VALUES.items() if name not in built}
        self._known = {*built, *NEUTRAL_VALUES, *HARMLESS_FIELDS}
        self._logged: set[str] = set()

    def check(self, fields: JsonObject) -> None:
        """Raise InvalidRequestError for the first that asks for something; name those that nobody knows in the log."""
        for name, neutral in self._unbuilt.items():
            value = fields.get(name)
            if value is not None and not _is_one_of(value, neutral):
                raise InvalidRequestError(
                    f"{name} = {describe(value)} is not supported by this server; leave {name} out.", param=name
                )
        self._log(fields.keys() - self._known)

    def _log(self, names: Iterable[str]) -> None:
        """Each unknown name once, the first time somebody sends it."""
        for name in names:
            if name not in self._logged and len(self._logged) < MAX_LOGGED_NAMES:
                self._logged.add(name)
                logger.warning("ignoring the unknown request field %r", name[:60])


def _is_one_of(value: object, neutral: tuple[object, ...]) -> bool:
    # 1 == True in Python, so the types are compared too; 0 and 0.0 are the same number.
    return any(value == item and isinstance(value, bool) == isinstance(item, bool) for item in neutral)


def parse_json_object(body: bytes) -> JsonObject:
    """The JSON object in `body`; strict: UTF-8, finite numbers, whole characters, an object at the top."""
    text = _decode(body)
    value = _parse(text)
    if not isinstance(value, dict):
        raise InvalidRequestError(f"The body must be a JSON object, got {KINDS[type(value)]}.")
    if SURROGATE_ESCAPE.search(text):
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


def _parse(text: str) -> object:
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


def _refuse_lone_surrogates(root: JsonObject) -> None:
    waiting: list[tuple[str, object]] = [("", root)]
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
