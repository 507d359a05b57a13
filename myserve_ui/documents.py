"""JSON documents that people keep: typed, frozen, and read whole or refused in a sentence that names the place."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, ClassVar, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import PydanticCustomError

from myserve_ui.core.strict_json import read_json
from myserve_ui.errors import InvalidRequestError

LARGEST = 1e300
"""No number of a document is larger, and whole numbers that are cannot be reckoned with."""
NOUNS = {
    "list_type": "a list",
    "tuple_type": "a list",
    "model_type": "an object",
    "dict_type": "an object",
    "dataclass_type": "an object",
    "string_type": "a text",
    "bool_type": "a flag",
    "int_from_float": "a whole number",
}
"""Kind of a fault, as pydantic names it -> what should stand there; a number for all others."""


def _number(value: object) -> object:
    """pydantic reads a text such as "5" and a flag as whole numbers, which here they are not."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    raise PydanticCustomError("number_type", "should be a number")


Number = Annotated[float, Field(strict=True, gt=-LARGEST, lt=LARGEST)]
Whole = Annotated[int, BeforeValidator(_number), Field(gt=-(10**300), lt=10**300)]
Flag = Annotated[bool, Field(strict=True)]


def if_kept(value: float | None) -> float | None:
    """`value`, reckoned from numbers of documents; None if it is too large to stand in one itself."""
    return value if value is not None and abs(value) < LARGEST else None


class Part(BaseModel):
    """A part of a document; what it does not know is left out. What older documents may lack has a default."""

    model_config = ConfigDict(frozen=True, extra="ignore", serialize_by_alias=True, validate_by_name=True)


class Document(Part):
    """A whole document. Each kind gives `kind` and `version` their defaults; one without a version is of the first."""

    NAME: ClassVar[str]
    """In a sentence: "benchmark"."""
    WAY_OUT: ClassVar[str]
    """Ends each refusal: what to choose instead."""
    MAX_BYTES: ClassVar[int]

    kind: str
    version: Whole = 1

    @classmethod
    def read(cls, data: bytes | str) -> Self:
        """What a file holds. Raises InvalidRequestError, as `check`, for what is too large or no JSON too."""
        if len(data) > cls.MAX_BYTES:
            raise InvalidRequestError(f"The file has {len(data)} bytes and may have {cls.MAX_BYTES}. {cls.WAY_OUT}")
        return cls.check(read_kept_json(data, cls.WAY_OUT))

    @classmethod
    def check(cls, value: object) -> Self:
        """`value` as this document. Raises InvalidRequestError that names what differs by its place: kld.mean."""
        if not isinstance(value, dict) or value.get("kind") != cls.model_fields["kind"].default:
            raise InvalidRequestError(f"The file is JSON, but no {cls.NAME}. {cls.WAY_OUT}")
        cls._check_version(value.get("version", 1))
        try:
            return cls.model_validate(value)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            fault = describe_fault(first["type"], first["loc"])
            raise InvalidRequestError(f"The {cls.NAME}{fault} {cls.WAY_OUT}") from None

    @classmethod
    def _check_version(cls, version: object) -> None:
        """Looked at before anything else, which another version may call by other names."""
        if not isinstance(version, int | float) or isinstance(version, bool):
            return  # a fault like that of any other number
        newest, words = cls.model_fields["version"].default, f"The {cls.NAME} is of version {version!s:.20}"
        if version > newest:
            raise InvalidRequestError(f"{words}, and this program reads up to {newest}; update it.")
        if version < 1:
            raise InvalidRequestError(f"{words}, and the first is 1. {cls.WAY_OUT}")

    def as_json(self) -> dict[str, object]:
        """The document as plain values, ready for `json.dumps`."""
        return self.model_dump(mode="json")


def read_kept_json(data: bytes | str, way_out: str) -> object:
    """Whatever a file's JSON says, made of text that can be shown: escapes can spell half of a surrogate pair.

    Raises InvalidRequestError, a sentence that `way_out` follows.
    """
    try:
        value = read_json(data)
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise InvalidRequestError(f"The file has half of a surrogate pair, which is not text. {way_out}") from None
    except (ValueError, RecursionError):
        raise InvalidRequestError(f"The file is not JSON. {way_out}") from None
    return value


def describe_fault(kind: str, place: Sequence[str | int]) -> str:
    """The end of a sentence that begins with a document: " has no rows.", "'s rows[0].goodput should be a number."."""
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).lstrip(".")
    if kind == "missing":
        return f" has no {path}."
    return f"'s {path} should be {NOUNS.get(kind, 'a number')}."
