"""The chat as the browser holds it: turns in the Chatbot's own format, and between them notes that no model sees.

A message's content is a list of text parts, never a string: Gradio trims strings. A note is an assistant message with
a title in its metadata: a line of numbers, a status, an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from myserve_ui.core.requests import Message
from myserve_ui.ui.shared.verbatim import protect, restore

Chat = list[dict[str, Any]]
"""Messages as gr.Chatbot takes and gives them."""

ROLES = ("user", "assistant")
NOTE_MARK = "\u2063"
"""Invisible first character of a note's title; the page's copy button cuts there."""


def user_message(text: str) -> dict[str, Any]:
    return _message("user", text)


def assistant_message(text: str) -> dict[str, Any]:
    return _message("assistant", text)


def note(title: str, body: str = "", *, pending: bool = False) -> dict[str, Any]:
    """A line below an answer; `pending` turns a spinner beside it."""
    metadata = {"title": NOTE_MARK + protect(title), "status": "pending" if pending else "done"}
    return {**_message("assistant", body), "metadata": metadata}


def open_note(title: str, body: str) -> dict[str, Any]:
    """A note whose body is unfolded, for what must not be missed."""
    return {**_message("assistant", body), "metadata": {"title": NOTE_MARK + protect(title)}}


def as_made_here(message: dict[str, Any]) -> dict[str, Any]:
    """A message that comes from a browser as this app makes one: an earlier version may have kept it, or anybody."""
    made = _message(message["role"], text_of(message))
    if not is_note(message):
        return made
    status = {"status": message["metadata"]["status"]} if "status" in message["metadata"] else {}
    return {**made, "metadata": {"title": NOTE_MARK + protect(title_of(message)), **status}}


def is_note(message: dict[str, Any]) -> bool:
    return bool((message.get("metadata") or {}).get("title"))


def is_pending(message: dict[str, Any]) -> bool:
    return is_note(message) and message["metadata"].get("status") == "pending"


def title_of(message: dict[str, Any]) -> str:
    """A note's title as it was written."""
    return restore(str(message["metadata"]["title"]).removeprefix(NOTE_MARK))


def text_of(message: dict[str, Any]) -> str:
    """A message's text as it was written, whatever shape the content has."""
    content = message.get("content")
    parts = content if isinstance(content, list) else [content]
    texts = (part.get("text") if isinstance(part, dict) else part for part in parts)
    return restore("".join(text for text in texts if isinstance(text, str)))


def spoken(chat: Sequence[dict[str, Any]]) -> tuple[Message, ...]:
    """What was said, for the model: no notes, and no question that never got an answer."""
    said = [Message(message["role"], text_of(message)) for message in chat if not is_note(message)]
    roles_after = [*(message.role for message in said[1:]), "user"]
    return tuple(
        message
        for message, role_after in zip(said, roles_after, strict=False)
        if message.role != "user" or role_after == "assistant"
    )


def last_question(chat: Sequence[dict[str, Any]]) -> int | None:
    """Index of the last user turn, None without one."""
    return next((index for index in reversed(range(len(chat))) if chat[index]["role"] == "user"), None)


def without_status(chat: Iterable[dict[str, Any]]) -> Chat:
    """The chat without notes that stand alone: errors of attempts that were refused, unfinished statuses."""
    kept: Chat = []
    for message in chat:
        if is_note(message) and (is_pending(message) or not kept or is_note(kept[-1]) or kept[-1]["role"] == "user"):
            continue
        kept.append(message)
    return kept


def settle(chat: Sequence[dict[str, Any]], reason: str) -> Chat:
    """Turn an unfinished status at the end into a note that says why it ended ("stopped", "interrupted")."""
    if not chat or not is_pending(chat[-1]):
        return list(chat)
    progress = title_of(chat[-1]).partition(" · ")[2]
    return [*chat[:-1], note(f"{reason} · {progress}" if progress else reason)]


def _message(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "content": [{"type": "text", "text": protect(text)}]}
