"""What an answer must look like: any JSON object, or JSON that a schema allows."""

from __future__ import annotations

import json
from dataclasses import dataclass

from myserve_ui.core.schemas.rules import hold_schema
from myserve_ui.errors import InvalidRequestError

MAX_SCHEMA_BYTES = 64 * 1024
"""A thousand properties of sixty bytes each; the slowest grammar of this size is built in half a second."""

NAMING = ('"properties":', '"patternProperties":', '"required":')

ANY_OBJECT = '{"type":"object"}'


@dataclass(frozen=True, slots=True)
class StructuredOutput:
    """A shape that every token of an answer is held to. Equal shapes share one grammar."""

    schema: str
    """A checked JSON schema as compact JSON, its numbers written as the grammar library reads them, without notes.

    Its keys are in the order given: properties come out in that order.
    """

    @property
    def names_keys(self) -> bool:
        """Whether it may say what some keys hold, so that it matters how a key is spelled."""
        return any(keyword in self.schema for keyword in NAMING)

    @staticmethod
    def json_object() -> StructuredOutput:
        """Any JSON object."""
        return StructuredOutput(ANY_OBJECT)

    @staticmethod
    def json_schema(schema: object, *, param: str = "response_format") -> StructuredOutput:
        """JSON that `schema`, a decoded JSON schema, allows.

        Raises InvalidRequestError, with `param` set, for what cannot be enforced or is too large.
        """
        if not isinstance(schema, dict):
            raise InvalidRequestError(
                f"The schema must be a JSON object, such as {ANY_OBJECT}; got {type(schema).__name__}.", param=param
            )
        text = _compact(schema, param)
        if len(text) > MAX_SCHEMA_BYTES:
            raise InvalidRequestError(
                f"The schema takes {len(text)} bytes and may take {MAX_SCHEMA_BYTES}: shorten descriptions and enums, "
                "or move what is repeated to $defs.",
                param=param,
            )
        return StructuredOutput(_compact(hold_schema(schema, param), param))


def _compact(schema: dict[str, object], param: str) -> str:
    """`schema` as ASCII JSON without spaces."""
    try:
        return json.dumps(schema, separators=(",", ":"), allow_nan=False)
    except RecursionError:
        raise InvalidRequestError("The schema is nested too deeply to be read: flatten it.", param=param) from None
    except (TypeError, ValueError):
        raise InvalidRequestError("The schema holds a value that JSON has no word for.", param=param) from None
