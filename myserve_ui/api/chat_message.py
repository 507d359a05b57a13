"""A message of a chat, in OpenAI's words."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator

from myserve_ui.api.tool_fields import ToolCallFields
from myserve_ui.api.validation import describe, refusal
from myserve_ui.api.wire_model import WireModel
from myserve_ui.core.requests import Message
from myserve_ui.core.tools import MAX_TOOLS


def _join_parts(content: Any, info: ValidationInfo) -> Any:
    """Content as one string: text parts are joined with nothing between."""
    if content is None:
        if info.data.get("tool_calls"):
            return ""
        raise refusal("must be a string or an array of text parts; null goes only with tool_calls of the assistant")
    if not isinstance(content, list):
        return content
    return "".join(_part_text(part, index) for index, part in enumerate(content))


def _part_text(part: Any, index: int) -> str:
    if not isinstance(part, dict):
        raise refusal(f"part {index} must be an object with type and text, got {describe(part)}")
    if part.get("type") != "text":
        raise refusal(
            f"part {index} must have the type 'text', the only one supported, got {describe(part.get('type'))}"
        )
    if not isinstance(part.get("text"), str):
        raise refusal(f"part {index} must have a string as its text, got {describe(part.get('text'))}")
    return str(part["text"])


class ChatMessage(WireModel):
    # the order matters: what stands below is checked against what stands above
    role: Literal["system", "developer", "user", "assistant", "tool"]
    tool_calls: Annotated[list[ToolCallFields], Field(max_length=MAX_TOOLS)] | None = None
    tool_call_id: Annotated[str | None, Field(validate_default=True)] = None
    content: Annotated[
        str,
        BeforeValidator(_join_parts, json_schema_input_type=str | list[dict[str, str]] | None),
        Field(validate_default=True),
    ] = None  # type: ignore[assignment]
    name: str | None = None
    function_call: Any = None
    audio: Any = None

    @field_validator("tool_calls")
    @classmethod
    def _only_the_assistant_calls(
        cls, calls: list[ToolCallFields] | None, info: ValidationInfo
    ) -> list[ToolCallFields] | None:
        if calls and info.data.get("role", "assistant") != "assistant":
            raise refusal(f"goes only with the role 'assistant', got {describe(info.data['role'])}")
        return calls

    @field_validator("tool_call_id")
    @classmethod
    def _results_say_which_call(cls, call_id: str | None, info: ValidationInfo) -> str | None:
        if call_id is None and info.data.get("role") == "tool":
            raise refusal("is required with the role 'tool': the id of the call that this answers")
        return call_id

    @field_validator("function_call", "audio")
    @classmethod
    def _refuse_other_content(cls, value: Any) -> Any:
        if value:
            raise refusal("is not supported by this server; leave it out")
        return value

    def to_message(self) -> Message:
        return Message(
            role="system" if self.role == "developer" else self.role,
            content=self.content,
            tool_calls=tuple(call.to_call() for call in self.tool_calls or ()),
            tool_call_id=self.tool_call_id if self.role == "tool" else None,
        )
