"""Tools of a chat in OpenAI's words: those that a request offers, and the calls of an answer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Annotated, Literal, NotRequired

from pydantic import Field, PlainValidator, field_validator
from typing_extensions import TypedDict

from myserve_ui.api.bodies import WireModel
from myserve_ui.api.errors import describe, refusal
from myserve_ui.core.strict_json import read_json
from myserve_ui.core.tools import (
    MAX_TOOLS,
    MAX_TOOLS_BYTES,
    Tool,
    ToolCall,
    ToolCallDelta,
    ToolChoice,
    ToolMode,
)
from myserve_ui.errors import InvalidRequestError

FUNCTION_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
OBJECT = "object"
MAX_NESTING = 64
"""Of a schema, and of arguments: twice what can be kept, and far from what cannot be read."""


def is_nested_deeper(value: object, limit: int) -> bool:
    """Whether `value`, decoded JSON, has more than `limit` objects and arrays inside each other."""
    level = [value]
    for _ in range(limit + 1):
        parts = [part for part in level if isinstance(part, dict | list)]
        if not parts:
            return False
        level = [inner for part in parts for inner in (part.values() if isinstance(part, dict) else part)]
    return True


class FunctionFields(WireModel):
    name: str
    description: str | None = None
    parameters: dict[str, object] | None = None
    strict: bool | None = None

    @field_validator("name")
    @classmethod
    def _is_a_name(cls, name: str) -> str:
        if not FUNCTION_NAME.fullmatch(name):
            raise refusal(f"must be 1 to 64 letters, digits, _ or -, got {describe(name)}")
        return name

    @field_validator("parameters")
    @classmethod
    def _describe_an_object(cls, schema: dict[str, object] | None) -> dict[str, object] | None:
        if is_nested_deeper(schema, MAX_NESTING):
            raise refusal(f"is nested more than {MAX_NESTING} deep; flatten it")
        if schema is not None and schema.get("type", OBJECT) != OBJECT:
            raise refusal(f"must be the schema of an object, of the type 'object', got {describe(schema['type'])}")
        return schema


class ToolFields(WireModel):
    type: Literal["function"]
    function: FunctionFields


class CalledFunctionFields(WireModel):
    name: str
    arguments: str

    @field_validator("arguments")
    @classmethod
    def _are_an_object(cls, arguments: str) -> str:
        try:
            value = read_json(arguments)
        except (ValueError, RecursionError):
            raise refusal(f"must be a JSON object written as a string, got {describe(arguments)}") from None
        if not isinstance(value, dict) or is_nested_deeper(value, MAX_NESTING):
            raise refusal(f"must be a JSON object written as a string, got {describe(arguments)}")
        return arguments


class ToolCallFields(WireModel):
    id: str
    type: Literal["function"]
    function: CalledFunctionFields

    def to_call(self) -> ToolCall:
        return ToolCall(self.id, self.function.name, self.function.arguments)


def read_tool_choice(value: object) -> ToolChoice | None:
    """ "none", "auto", "required", or {"type": "function", "function": {"name": …}}."""
    if value is None:
        return None
    if isinstance(value, str) and value in list(ToolMode):
        return ToolChoice(ToolMode(value))
    if isinstance(value, dict) and value.get("type") == "function":
        function = value.get("function")
        if isinstance(function, dict) and isinstance(function.get("name"), str):
            return ToolChoice(ToolMode.REQUIRED, function["name"])
    raise refusal(
        "must be 'none', 'auto', 'required' or {'type': 'function', 'function': {'name': …}}, "
        f"got {describe(value)}"
    )


class NamedFunction(TypedDict):
    name: str


class NamedTool(TypedDict):
    type: Literal["function"]
    function: NamedFunction


Tools = Annotated[list[ToolFields], Field(max_length=MAX_TOOLS)]
Choice = Annotated[
    ToolChoice | None,
    PlainValidator(read_tool_choice, json_schema_input_type=Literal["none", "auto", "required"] | NamedTool | None),
]


def to_tools(fields: Sequence[ToolFields]) -> tuple[Tool, ...]:
    """The functions that are offered. Raises InvalidRequestError for two of one name, and for too many bytes."""
    seen: dict[str, int] = {}
    for index, tool in enumerate(fields):
        if (first := seen.setdefault(tool.function.name, index)) != index:
            raise InvalidRequestError(
                f"tools[{index}].function.name is {tool.function.name!r}, as is that of tools[{first}]; rename one.",
                param=f"tools[{index}].function.name",
            )
    tools = tuple(_to_tool(tool.function) for tool in fields)
    size = sum(len(tool.parameters) + len(tool.description or "") + len(tool.name) for tool in tools)
    if size > MAX_TOOLS_BYTES:
        raise InvalidRequestError(
            f"The tools take {size} bytes and may take {MAX_TOOLS_BYTES}: send fewer, or shorten their descriptions.",
            param="tools",
        )
    return tools


def to_tool_choice(choice: ToolChoice | None, tools: Sequence[Tool]) -> ToolChoice:
    """What may or must be called, AUTO if the request does not say.

    Raises InvalidRequestError if a function must be called that is not offered.
    """
    choice = choice or ToolChoice()
    if choice.mode is ToolMode.REQUIRED and not tools:
        raise InvalidRequestError("tool_choice asks for a call, and there are no tools to call.", param="tool_choice")
    if choice.name is not None and choice.name not in [tool.name for tool in tools]:
        raise InvalidRequestError(
            f"tool_choice.function.name is {describe(choice.name)}, which is none of the tools.",
            param="tool_choice.function.name",
        )
    return choice


def _to_tool(function: FunctionFields) -> Tool:
    schema = {"type": OBJECT} | (function.parameters or {"properties": {}})
    return Tool(
        name=function.name,
        parameters=json.dumps(schema, separators=(",", ":")),
        description=function.description,
        strict=bool(function.strict),
    )


class WrittenFunction(TypedDict):
    name: NotRequired[str]
    arguments: str


class CalledFunction(TypedDict):
    name: str
    arguments: str


class Call(TypedDict):
    """A call in a message."""

    id: str
    type: Literal["function"]
    function: CalledFunction


class CallDelta(TypedDict):
    """News of a call in a chunk; id, type and name stand in its first only."""

    index: int
    id: NotRequired[str]
    type: NotRequired[Literal["function"]]
    function: WrittenFunction


def call_delta(news: ToolCallDelta) -> CallDelta:
    if news.id is None:
        return {"index": news.index, "function": {"arguments": news.arguments}}
    function: WrittenFunction = {"name": news.name or "", "arguments": news.arguments}
    return {"index": news.index, "id": news.id, "type": "function", "function": function}


def whole_calls(news: Iterable[ToolCallDelta]) -> list[Call]:
    """The calls that all `news` of one message add up to."""
    firsts: dict[int, ToolCallDelta] = {}
    arguments: dict[int, str] = {}
    for delta in news:
        firsts.setdefault(delta.index, delta)
        arguments[delta.index] = arguments.get(delta.index, "") + delta.arguments
    return [
        {
            "id": first.id or "",
            "type": "function",
            "function": {"name": first.name or "", "arguments": arguments[index]},
        }
        for index, first in firsts.items()
    ]
