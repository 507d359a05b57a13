"""Chat templates: read from the setting, given messages and functions as they expect them, and tried.

Only by trying is it told in which form a template wants what was said: as a string, or as a list of parts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NotRequired, TypedDict

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from myserve_ui.core.requests import Message
from myserve_ui.core.tools import Tool, ToolCall
from myserve_ui.errors import InvalidRequestError, ModelLoadError

Mark = Callable[[str], str]
"""Marks the control tokens that a text spells."""

ROLES = ("user", "assistant", "system")
PROBES = ("zqfirst", "zqsecond", "zqthird")
"""Words that no template has of its own, whatever it does to their case."""

LOST = (
    "This model's chat template drops what the user says, as a string and as a list of parts alike, so a chat would "
    "be answered without it: send text to /v1/completions, or give another with --chat-template."
)
LOST_HERE = (
    "This model's chat template drops the last thing that the user says in this chat, so it would be answered without "
    "it: send fewer messages, or give another with --chat-template."
)
Render = Callable[[Sequence[Message], frozenset[str]], str]
"""Renders a chat, the contents of some roles as lists of parts; raises InvalidRequestError where the template refuses.
"""


class FunctionCallValue(TypedDict):
    name: str
    arguments: object
    """An object: templates do not want the string that is sent on the wire."""


class CallValue(TypedDict):
    id: str
    type: str
    function: FunctionCallValue


class TextPart(TypedDict):
    type: str
    text: str


class MessageValue(TypedDict):
    """A turn of the chat."""

    role: str
    content: str | list[TextPart]
    tool_calls: NotRequired[list[CallValue]]
    tool_call_id: NotRequired[str]


class FunctionValue(TypedDict):
    name: str
    description: str
    parameters: object


class ToolValue(TypedDict):
    """A function as OpenAI describes it."""

    type: str
    function: FunctionValue


class GenerationBlock(Extension):
    """{% generation %}: transformers' own tag around what the assistant says, for training; it renders its inside."""

    tags = {"generation"}  # noqa: RUF012  jinja2 declares it as a plain set

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def read_chat_template(setting: str) -> str:
    """The Jinja text. Raises ModelLoadError if the file is missing or the template cannot be parsed."""
    text = setting if _is_jinja(setting) else _read_file(setting)
    try:
        environment = ImmutableSandboxedEnvironment(extensions=["jinja2.ext.loopcontrols", GenerationBlock])
        environment.parse(text)
    except jinja2.TemplateSyntaxError as error:
        raise ModelLoadError(
            f"--chat-template, MYSERVE_CHAT_TEMPLATE or the template in the file of models is no Jinja template: "
            f"{error.message} in line {error.lineno}."
        ) from None
    return text


def _is_jinja(setting: str) -> bool:
    return "{{" in setting or "{%" in setting


def _read_file(setting: str) -> str:
    try:
        return Path(setting).expanduser().read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError):
        raise ModelLoadError(
            "--chat-template or MYSERVE_CHAT_TEMPLATE is no readable file and no Jinja template: "
            "give a path, or the template itself."
        ) from None


def message_value(message: Message, mark: Mark, *, in_parts: bool = False) -> MessageValue:
    """A turn of the chat, its strings marked; its content a list of one part if the template wants it `in_parts`."""
    text = mark(message.content)
    value: MessageValue = {
        "role": message.role,
        "content": [{"type": "text", "text": text}] if in_parts else text,
    }
    if message.tool_calls:
        value["tool_calls"] = [_call_value(call, mark) for call in message.tool_calls]
    if message.tool_call_id is not None:
        value["tool_call_id"] = mark(message.tool_call_id)
    return value


def tool_value(tool: Tool, mark: Mark) -> ToolValue:
    """`tool`, its strings marked."""
    function: FunctionValue = {
        "name": tool.name,
        "description": mark(tool.description or ""),
        "parameters": _marked(json.loads(tool.parameters), mark),
    }
    return {"type": "function", "function": function}


def _call_value(call: ToolCall, mark: Mark) -> CallValue:
    function: FunctionCallValue = {"name": mark(call.name), "arguments": _marked(json.loads(call.arguments), mark)}
    return {"id": mark(call.id), "type": "function", "function": function}


def _marked(value: object, mark: Mark) -> object:
    """`value` with every string in it marked, keys too."""
    if isinstance(value, str):
        return mark(value)
    if isinstance(value, list):
        return [_marked(item, mark) for item in value]
    if isinstance(value, dict):
        return {mark(key): _marked(item, mark) for key, item in value.items()}
    return value


def find_roles_in_parts(render: Render) -> frozenset[str] | str:
    """The roles whose content the template wants as parts, found by trying; or why no chat can be rendered.

    A template that refuses to be tried is taken to want strings: it will refuse a real chat in its own words.
    """
    in_parts: frozenset[str] = frozenset()
    for role, chat in _probes():
        with_role = in_parts | {role}
        as_string, as_parts = _is_said(render, chat, in_parts), _is_said(render, chat, with_role)
        if as_parts and not as_string:
            in_parts = with_role
        elif role == "user" and not as_string and (as_string, as_parts) != (None, None):
            return LOST
    return in_parts


def _probes() -> Iterator[tuple[str, list[Message]]]:
    """A role, and a chat that ends with what it says first; the user's is found before a chat needs it."""
    user, assistant, system = (Message(role, word) for role, word in zip(ROLES, PROBES, strict=True))
    yield "user", [user]
    yield "system", [system, user]
    yield "assistant", [user, assistant, user]


def _is_said(render: Render, chat: Sequence[Message], in_parts: frozenset[str]) -> bool | None:
    """Whether all that is said in `chat` is in the prompt; None if the template refuses."""
    try:
        prompt = render(chat, in_parts).casefold()
    except InvalidRequestError:
        return None
    return all(message.content in prompt for message in chat)


def is_last_turn_said(
    messages: Sequence[Message], prompt: str, render: Callable[[Sequence[Message]], str], mark: Callable[[str], str]
) -> bool:
    """Whether the last message of the user is in `prompt`, which `render` made of `messages`.

    A template may trim it or write it otherwise; then it must say a plain word in its place.
    """
    last = max((index for index, message in enumerate(messages) if message.role == "user"), default=None)
    if last is None or mark(messages[last].content).strip() in prompt:
        return True
    probe = replace(messages[last], content=PROBES[0])
    return PROBES[0] in render([*messages[:last], probe, *messages[last + 1 :]]).casefold()
