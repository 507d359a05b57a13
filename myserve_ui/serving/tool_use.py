"""What a chat's tools mean for one model: the form that the answer is held to, and how its text is read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from myserve_ui.core.requests import ChatRequest
from myserve_ui.core.schemas.structured_output import StructuredOutput
from myserve_ui.core.tokenizer import Tokenizer
from myserve_ui.core.tool_call_output import MAX_CALLS, CallableFunction, ToolCallOutput
from myserve_ui.core.tools import Tool, ToolFormat, ToolMode
from myserve_ui.errors import InvalidRequestError
from myserve_ui.tools.call_bodies import CallBody, CheckedBody, HeldBody
from myserve_ui.tools.call_parser import ToolCallParser


@dataclass(frozen=True, slots=True)
class ToolUse:
    """How the answers to one chat may call functions."""

    format: ToolFormat
    names: frozenset[str]
    form: ToolCallOutput | None
    """What every token is held to; None where the model writes freely and calls are checked when they are whole."""

    def start_parser(self) -> ToolCallParser:
        """A parser for one answer."""
        return ToolCallParser(self.format, self._start_body)

    def _start_body(self) -> CallBody:
        key = self.format.arguments_key
        return CheckedBody(self.names, key) if self.form is None else HeldBody(key)


def plan_tool_use(request: ChatRequest, tokenizer: Tokenizer) -> ToolUse | None:
    """None if the answer is text only.

    Raises InvalidRequestError if the model takes no tools, or if a schema that the answer must keep cannot be kept.
    """
    _refuse_tool_turns_without_tools(request, tokenizer)
    if not offered_tools(request):
        return None
    call_format = _tool_format(tokenizer, "tools")
    if request.params.structured_output is not None:
        raise InvalidRequestError(
            "response_format cannot go with tools that may be called: leave one out, or set tool_choice to 'none'.",
            param="response_format",
        )
    return ToolUse(call_format, frozenset(tool.name for tool in request.tools), _plan_form(request, call_format))


def offered_tools(request: ChatRequest) -> Sequence[Tool]:
    """The functions that the model is told of."""
    return () if request.tool_choice.mode is ToolMode.NONE else request.tools


def _plan_form(request: ChatRequest, call_format: ToolFormat) -> ToolCallOutput | None:
    """A form where the request asks for more than a model that writes freely can promise."""
    is_required = request.tool_choice.mode is ToolMode.REQUIRED
    is_single = request.tool_choice.name is not None or not request.parallel_tool_calls
    if not (is_required or is_single or any(tool.strict for tool in request.tools)):
        return None
    functions = tuple(
        CallableFunction(tool.name, _arguments(tool, index, is_held=is_required or tool.strict))
        for index, tool in enumerate(request.tools)
        if request.tool_choice.name in (None, tool.name)
    )
    max_calls = 1 if is_single or not call_format.begin else MAX_CALLS
    return ToolCallOutput(call_format, functions, max_calls, is_call_required=is_required)


def _arguments(tool: Tool, index: int, *, is_held: bool) -> StructuredOutput:
    if not is_held:
        return StructuredOutput.json_object()
    return StructuredOutput.json_schema(json.loads(tool.parameters), param=f"tools[{index}].function.parameters")


def _refuse_tool_turns_without_tools(request: ChatRequest, tokenizer: Tokenizer) -> None:
    for index, message in enumerate(request.messages):
        if message.is_about_tools:
            _tool_format(tokenizer, f"messages[{index}]")
            return


def _tool_format(tokenizer: Tokenizer, param: str) -> ToolFormat:
    try:
        return tokenizer.tool_format()
    except InvalidRequestError as error:
        error.param = param
        raise
