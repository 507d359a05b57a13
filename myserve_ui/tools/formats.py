"""The formats of calls that are read here, and which of them a chat template teaches its model."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from myserve_ui.core.requests import Message
from myserve_ui.core.tools import Tool, ToolFormat
from myserve_ui.errors import InvalidRequestError
from myserve_ui.tools.hermes import HermesFormat
from myserve_ui.tools.llama3 import Llama3Format

Render = Callable[[Sequence[Message], Sequence[Tool]], str]
"""Renders a chat; raises InvalidRequestError where the template refuses."""

FORMATS = (HermesFormat, Llama3Format)
SPOKEN_TOKENS = frozenset({HermesFormat.begin, HermesFormat.end})
"""Markers that may be special tokens of a vocabulary, and are part of an answer's text all the same."""

NOT_TAKEN = "This model's chat template takes no tools: leave tools out, or use a model that was trained to call them."

OTHER_FORMATS = {
    "[TOOL_CALLS]": "Mistral's [TOOL_CALLS]",
    "<function=": "<function=…> tags",
    "<arg_key>": "<arg_key> tags",
    "<｜tool": "DeepSeek's tool tokens",
    "<|channel|>": "channels",
}
"""A word of the template -> what the format is called. Some of them use <tool_call> too, with another inside."""


def takes_tools(render: Render) -> bool:
    """Whether a function that is offered changes the prompt: templates that know nothing of tools ignore them."""
    chat = (Message("user", "probe"),)
    probe = Tool(name="probe", parameters='{"type":"object","properties":{}}', description="probe")
    try:
        return render(chat, (probe,)) != render(chat, ())
    except InvalidRequestError:
        return False


def recognise_tool_format(template: str) -> ToolFormat | str:
    """The format that `template`, which takes tools, teaches; or why it cannot be served."""
    for word, name in OTHER_FORMATS.items():
        if word in template:
            return _unread(name)
    for known in FORMATS:
        if known.is_taught_by(template):
            return known()
    return _unread("a format that is not known here")


def _unread(name: str) -> str:
    return (
        f"This model writes its calls in {name}, which this server cannot read; it reads <tool_call> with JSON "
        "(Qwen, Hermes) and the JSON of Llama 3. Leave tools out, or use such a model."
    )
