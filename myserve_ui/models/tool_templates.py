"""Tells from a chat template how its model writes calls."""

from __future__ import annotations

from myserve_ui.core.requests import Message
from myserve_ui.core.tool_format import HERMES, LLAMA_JSON, ToolFormat
from myserve_ui.core.tools import Tool

PROBE_CHAT = (Message("user", "probe"),)
PROBE_TOOL = Tool(name="probe", parameters='{"type":"object","properties":{}}', description="probe")
NOT_TAKEN = "This model's chat template takes no tools: leave tools out, or use a model that was trained to call them."

OTHER_FORMATS = {
    "[TOOL_CALLS]": "Mistral's [TOOL_CALLS]",
    "<function=": "<function=…> tags",
    "<arg_key>": "<arg_key> tags",
    "<｜tool": "DeepSeek's tool tokens",
    "<|channel|>": "channels",
}
"""A word of the template -> what the format is called. Some of them use <tool_call> too, with another inside."""


def recognise_tool_format(template: str) -> ToolFormat | str:
    """The format that `template`, which takes tools, teaches; or why it cannot be served."""
    for word, name in OTHER_FORMATS.items():
        if word in template:
            return _unread(name)
    if HERMES.begin in template and HERMES.end in template:
        return HERMES
    if '"parameters": ' in template and '{"name": function name' in template:
        return LLAMA_JSON
    return _unread("a format that is not known here")


def _unread(name: str) -> str:
    return (
        f"This model writes its calls in {name}, which this server cannot read; it reads <tool_call> with JSON "
        "(Qwen, Hermes) and the JSON of Llama 3. Leave tools out, or use such a model."
    )
