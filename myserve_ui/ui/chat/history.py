"""The chat as the page shows it: turns, and between them notes that no model sees. Its border to gr.Chatbot is here.

A message's content is a list of text parts, never a string: Gradio trims strings. A note is an assistant message with
a title in its metadata: a line of numbers, a status, an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NotRequired, TypedDict

from myserve_ui.core.requests import Message
from myserve_ui.ui.shared.verbatim import protect, restore

Role = Literal["user", "assistant"]
ROLES: tuple[Role, Role] = ("user", "assistant")
NOTE_MARK = "\u2063"
"""Invisible first character of a note's title; the page's copy button cuts there."""


class TextPart(TypedDict):
    type: Literal["text"]
    text: str


class NoteMetadata(TypedDict):
    title: str
    status: NotRequired[str]


class ChatbotMessage(TypedDict):
    """As gr.Chatbot takes it; what it gives may hold anything beside."""

    role: Role
    content: list[TextPart]
    metadata: NotRequired[NoteMetadata]


@dataclass(frozen=True)
class Turn:
    """What one side said, as it was written."""

    role: Role
    text: str

    @cached_property
    def message(self) -> ChatbotMessage:
        """Made once, however many frames of a later answer show it."""
        return _message(self.role, self.text)


@dataclass(frozen=True)
class Note:
    """A line below an answer, with a body behind it."""

    title: str
    body: str = ""
    status: Literal["pending", "done"] | None = "done"
    """pending: with a spinner; done: folded away; None: unfolded, for what must not be missed."""

    @property
    def is_pending(self) -> bool:
        return self.status == "pending"

    @cached_property
    def message(self) -> ChatbotMessage:
        metadata: NoteMetadata = {"title": NOTE_MARK + protect(self.title)}
        if self.status:
            metadata["status"] = self.status
        return {**_message("assistant", self.body), "metadata": metadata}


Chat = list[Turn | Note]


def user_turn(text: str) -> Turn:
    return Turn("user", text)


def assistant_turn(text: str) -> Turn:
    return Turn("assistant", text)


def pending_note(title: str) -> Note:
    return Note(title, status="pending")


def open_note(title: str, body: str) -> Note:
    return Note(title, body, status=None)


def read_chat(messages: Iterable[Mapping[str, object]]) -> Chat:
    """What a browser holds, one entry for each message: an earlier version may have kept it, or anybody."""
    return [_read(message) for message in messages]


def messages_of(chat: Iterable[Turn | Note]) -> list[ChatbotMessage]:
    return [entry.message for entry in chat]


def text_in(content: object) -> str:
    """The text of a message's content as it was written, whatever shape it has."""
    parts = content if isinstance(content, list) else [content]
    texts = (part.get("text") if isinstance(part, dict) else part for part in parts)
    return restore("".join(text for text in texts if isinstance(text, str)))


def spoken(chat: Sequence[Turn | Note]) -> tuple[Message, ...]:
    """What was said, for the model: no notes, and no question that never got an answer."""
    said = [turn for turn in chat if isinstance(turn, Turn)]
    roles_after = [*(turn.role for turn in said[1:]), "user"]
    return tuple(
        Message(turn.role, turn.text)
        for turn, role_after in zip(said, roles_after, strict=False)
        if turn.role != "user" or role_after == "assistant"
    )


def last_question(chat: Sequence[Turn | Note]) -> tuple[int, Turn] | None:
    """(index, turn) of the last thing that the user said, None without one."""
    for index in reversed(range(len(chat))):
        turn = chat[index]
        if isinstance(turn, Turn) and turn.role == "user":
            return index, turn
    return None


def without_status(chat: Iterable[Turn | Note]) -> Chat:
    """The chat without notes that stand alone: errors of attempts that were refused, unfinished statuses."""
    kept: Chat = []
    for entry in chat:
        is_below_answer = bool(kept) and isinstance(kept[-1], Turn) and kept[-1].role == "assistant"
        if isinstance(entry, Turn) or (is_below_answer and not entry.is_pending):
            kept.append(entry)
    return kept


def settle(chat: Sequence[Turn | Note], reason: str) -> Chat:
    """Turn an unfinished status at the end into a note that says why it ended ("stopped", "interrupted")."""
    if not chat or not isinstance(last := chat[-1], Note) or not last.is_pending:
        return list(chat)
    progress = last.title.partition(" · ")[2]
    return [*chat[:-1], Note(f"{reason} · {progress}" if progress else reason)]


def _read(message: Mapping[str, object]) -> Turn | Note:
    text, metadata = text_in(message.get("content")), message.get("metadata")
    if not isinstance(metadata, dict) or not metadata.get("title"):
        return user_turn(text) if message.get("role") == "user" else assistant_turn(text)
    title = restore(str(metadata["title"]).removeprefix(NOTE_MARK))
    status = metadata.get("status")
    return Note(title, text, status if status in ("pending", "done") else None)


def _message(role: Role, text: str) -> ChatbotMessage:
    return {"role": role, "content": [{"type": "text", "text": protect(text)}]}
