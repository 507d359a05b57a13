"""A chat on its way out and back: the browser's own store, and files for people to keep."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NotRequired, TypedDict, TypeGuard

from myserve_ui.documents import read_kept_json
from myserve_ui.errors import InvalidRequestError
from myserve_ui.ui.chat.history import ROLES, Chat, ChatbotMessage, Note, Role, Turn, messages_of, read_chat, settle

FORMAT = "myserve-chat"
VERSION = 1
WAY_OUT = "Choose a JSON file that this page saved."
SPEAKERS = {"user": "You", "assistant": "Assistant"}


class Stored(TypedDict):
    """What the browser keeps over a reload."""

    version: int
    chat: list[ChatbotMessage]
    used_tokens: int
    controls: dict[str, object]


class SavedTurn(TypedDict):
    """A turn as files have it: plain text, with the line of numbers below an answer."""

    role: Role
    content: str
    numbers: NotRequired[str]


def to_store(chat: Chat, *, used_tokens: int, controls: Mapping[str, object]) -> Stored:
    """Never falsy: Gradio does not write falsy values."""
    return {"version": VERSION, "chat": messages_of(chat), "used_tokens": used_tokens, "controls": dict(controls)}


def from_store(stored: object) -> tuple[Chat, int, dict[str, object]]:
    """(chat, used tokens, controls) of `to_store`; empty for anything else. An unfinished answer keeps its part."""
    if not isinstance(stored, dict) or stored.get("version") != VERSION:
        return [], 0, {}
    chat = read_chat(message for message in stored.get("chat") or [] if _is_message(message))
    controls = stored.get("controls")
    return (
        settle(chat, "interrupted when the page was left"),
        int(stored.get("used_tokens") or 0),
        controls if isinstance(controls, dict) else {},
    )


def to_json(chat: Chat, controls: Mapping[str, object]) -> str:
    """The chat as a document that `from_json` reads back."""
    document = {"format": FORMAT, "version": VERSION, "settings": dict(controls), "messages": _saved_turns(chat)}
    return json.dumps(document, ensure_ascii=False, indent=2)


def from_json(text: bytes | str) -> tuple[Chat, dict[str, object]]:
    """(chat, controls) of a saved document. Raises InvalidRequestError with a sentence about what is wrong."""
    document = read_kept_json(text, WAY_OUT)
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise InvalidRequestError(f"The file is JSON, but no saved chat. {WAY_OUT}")
    if document.get("version") != VERSION:
        raise InvalidRequestError(f"The file has version {document.get('version')!s:.20}, only {VERSION} can be read.")
    controls = document.get("settings")
    return _chat_of(document.get("messages")), controls if isinstance(controls, dict) else {}


def to_markdown(chat: Chat, controls: Mapping[str, object]) -> str:
    """The chat to read or to paste: a heading per turn, the text untouched, the numbers in italics."""
    sections = ["# Chat"]
    if system_prompt := str(controls.get("system_prompt") or "").strip():
        sections += ["## System", system_prompt]
    for turn in _saved_turns(chat):
        sections += [f"## {SPEAKERS[turn['role']]}", turn["content"]]
        if numbers := turn.get("numbers"):
            sections.append(f"*{numbers}*")
    return "\n\n".join(sections) + "\n"


def _saved_turns(chat: Chat) -> list[SavedTurn]:
    turns: list[SavedTurn] = []
    for entry in chat:
        if isinstance(entry, Turn):
            turns.append({"role": entry.role, "content": entry.text})
        elif turns and turns[-1]["role"] == "assistant" and not entry.is_pending:
            turns[-1].setdefault("numbers", entry.title)
    return turns


def _chat_of(turns: object) -> Chat:
    if not isinstance(turns, list):
        raise InvalidRequestError(f'The file has no list "messages". {WAY_OUT}')
    chat: Chat = []
    for number, turn in enumerate(turns, start=1):
        if not _is_message(turn) or not isinstance(turn["content"], str):
            raise InvalidRequestError(f"Message {number} of the file needs a role ({', '.join(ROLES)}) and a text.")
        chat.append(Turn(turn["role"], turn["content"]))
        if isinstance(numbers := turn.get("numbers"), str):
            chat.append(Note(numbers))
    return chat


def _is_message(message: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(message, dict) and message.get("role") in ROLES and "content" in message
