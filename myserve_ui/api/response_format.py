"""The field response_format, in OpenAI's words."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from myserve_ui.api.validation import describe, refusal
from myserve_ui.api.wire_model import WireModel
from myserve_ui.core.schemas.structured_output import StructuredOutput


class JsonSchemaFields(WireModel):
    name: str | None = None
    description: str | None = None
    schema_: dict[str, Any] = Field(alias="schema")
    strict: bool | None = None
    """Accepted and not needed: a schema is always kept."""


class ResponseFormat(WireModel):
    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchemaFields | None = None

    @field_validator("json_schema")
    @classmethod
    def _only_with_its_type(cls, value: JsonSchemaFields | None, info: Any) -> JsonSchemaFields | None:
        if value is not None and info.data.get("type", "json_schema") != "json_schema":
            raise refusal(f"goes only with the type 'json_schema', got the type {describe(info.data['type'])}")
        return value

    @model_validator(mode="after")
    def _schema_is_there(self) -> ResponseFormat:
        if self.type == "json_schema" and self.json_schema is None:
            raise refusal("of the type 'json_schema' needs a json_schema with the schema in it")
        return self

    def to_structured_output(self) -> StructuredOutput | None:
        """The form that the answer is held to. Raises InvalidRequestError for a schema that cannot be kept."""
        if self.type == "json_object":
            return StructuredOutput.json_object()
        if self.json_schema is None:
            return None
        return StructuredOutput.json_schema(self.json_schema.schema_, param="response_format.json_schema.schema")
