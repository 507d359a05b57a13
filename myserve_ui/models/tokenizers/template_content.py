"""Tells from a chat template in which form it wants what was said: as a string, or as a list of parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from myserve_ui.core.requests import Message
from myserve_ui.errors import InvalidRequestError

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
