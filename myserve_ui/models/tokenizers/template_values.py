"""Messages and functions as the values that chat templates of Hugging Face models expect."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from myserve_ui.core.requests import Message
from myserve_ui.core.tools import Tool, ToolCall

Mark = Callable[[str], str]
"""Marks the control tokens that a text spells."""


def message_value(message: Message, mark: Mark, *, in_parts: bool = False) -> dict[str, Any]:
    """A turn of the chat, its strings marked; its content a list of one part if the template wants it `in_parts`."""
    text = mark(message.content)
    content: Any = [{"type": "text", "text": text}] if in_parts else text
    value: dict[str, Any] = {"role": message.role, "content": content}
    if message.tool_calls:
        value["tool_calls"] = [_call_value(call, mark) for call in message.tool_calls]
    if message.tool_call_id is not None:
        value["tool_call_id"] = mark(message.tool_call_id)
    return value


def tool_value(tool: Tool, mark: Mark) -> dict[str, Any]:
    """A function as OpenAI describes it, its strings marked."""
    function = {
        "name": tool.name,
        "description": mark(tool.description or ""),
        "parameters": _marked(json.loads(tool.parameters), mark),
    }
    return {"type": "function", "function": function}


def _call_value(call: ToolCall, mark: Mark) -> dict[str, Any]:
    """A call; templates want the arguments as an object, not as the string that is sent on the wire."""
    function = {"name": mark(call.name), "arguments": _marked(json.loads(call.arguments), mark)}
    return {"id": mark(call.id), "type": "function", "function": function}


def _marked(value: Any, mark: Mark) -> Any:
    """`value` with every string in it marked, keys too."""
    if isinstance(value, str):
        return mark(value)
    if isinstance(value, list):
        return [_marked(item, mark) for item in value]
    if isinstance(value, dict):
        return {mark(key): _marked(item, mark) for key, item in value.items()}
    return value
