"""Turns a parsed body into a typed one; the first thing wrong becomes an error that names the field's path."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError, ValidationInfo
from pydantic_core import ErrorDetails, PydanticCustomError

from myserve_ui.errors import InvalidRequestError

Body = TypeVar("Body", bound=BaseModel)

MAX_NAME_CHARS = 60

_REFUSAL = "refusal"
_PHRASES = {
    "missing": "is required",
    "model_type": "must be an object",
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
"""Pydantic's own messages name Python classes."""


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """How much one request may ask for, as the operator set it."""

    max_choices: int = 16
    max_prompts: int = 64


def validate(body_type: type[Body], body: dict[str, Any], limits: RequestLimits | None = None) -> Body:
    """`body` as a `body_type`, whose validators find `limits` as their context.

    Raises InvalidRequestError whose `param` is the path of the first wrong field.
    """
    try:
        return body_type.model_validate(body, context=limits)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise InvalidRequestError(_sentence(first), param=field_path(first["loc"]) or None) from None


def limits_of(info: ValidationInfo) -> RequestLimits:
    """The limits that hold for the body in validation."""
    return info.context if isinstance(info.context, RequestLimits) else RequestLimits()


def refusal(reason: str) -> PydanticCustomError:
    """What a validator raises: the message will read "`field` `reason`."."""
    return PydanticCustomError(_REFUSAL, "{reason}", {"reason": reason})


def field_path(location: tuple[int | str, ...]) -> str:
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


def _sentence(error: ErrorDetails) -> str:
    path = field_path(error["loc"]) or "The body"
    context = error.get("ctx", {})
    phrase = context["reason"] if error["type"] == _REFUSAL else _phrase(error, context)
    return f"{path} {phrase}."


def _phrase(error: ErrorDetails, context: dict[str, Any]) -> str:
    words = _PHRASES.get(error["type"], "is not valid").format(**context)
    if error["type"] == "missing":
        return words
    return f"{words}, got {context.get('actual_length', describe(error['input']))}"
