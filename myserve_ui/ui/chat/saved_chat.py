"""A chat on its way out and back: the browser's own store, and files for people to keep."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from myserve_ui.core.strict_json import read_json
from myserve_ui.errors import InvalidRequestError
from myserve_ui.ui.chat.history import (
    ROLES,
    Chat,
    as_made_here,
    assistant_message,
    is_note,
    is_pending,
    note,
    settle,
    text_of,
    title_of,
    user_message,
)

FORMAT = "myserve-chat"
VERSION = 1
WAY_OUT = "Choose a JSON file that this page saved."
SPEAKERS = {"user": "You", "assistant": "Assistant"}


def to_store(chat: Sequence[dict[str, Any]], *, used_tokens: int, controls: Mapping[str, Any]) -> dict[str, Any]:
    """What the browser keeps over a reload. Never falsy: Gradio does not write falsy values."""
    messages = [as_made_here(message) for message in chat]
    return {"version": VERSION, "chat": messages, "used_tokens": used_tokens, "controls": dict(controls)}


def from_store(stored: object) -> tuple[Chat, int, dict[str, Any]]:
    """(chat, used tokens, controls) of `to_store`; empty for anything else. An unfinished answer keeps its part."""
    if not isinstance(stored, dict) or stored.get("version") != VERSION:
        return [], 0, {}
    chat = [as_made_here(message) for message in stored.get("chat") or [] if _is_message(message)]
    controls = stored.get("controls")
    return (
        settle(chat, "interrupted when the page was left"),
        int(stored.get("used_tokens") or 0),
        controls if isinstance(controls, dict) else {},
    )


def to_json(chat: Sequence[dict[str, Any]], controls: Mapping[str, Any]) -> str:
    """The chat as a document that `from_json` reads back."""
    document = {"format": FORMAT, "version": VERSION, "settings": dict(controls), "messages": _turns(chat)}
    return json.dumps(document, ensure_ascii=False, indent=2)


def from_json(text: bytes | str) -> tuple[Chat, dict[str, Any]]:
    """(chat, controls) of a saved document. Raises InvalidRequestError with a sentence about what is wrong."""
    document = _document(text)
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise InvalidRequestError(f"The file is JSON, but no saved chat. {WAY_OUT}")
    if document.get("version") != VERSION:
        raise InvalidRequestError(f"The file has version {document.get('version')!s:.20}, only {VERSION} can be read.")
    controls = document.get("settings")
    return _chat_of(document.get("messages")), controls if isinstance(controls, dict) else {}


def to_markdown(chat: Sequence[dict[str, Any]], controls: Mapping[str, Any]) -> str:
    """The chat to read or to paste: a heading per turn, the text untouched, the numbers in italics."""
    sections = ["# Chat"]
    if system_prompt := str(controls.get("system_prompt") or "").strip():
        sections += ["## System", system_prompt]
    for turn in _turns(chat):
        sections += [f"## {SPEAKERS[turn['role']]}", turn["content"]]
        if numbers := turn.get("numbers"):
            sections.append(f"*{numbers}*")
    return "\n\n".join(sections) + "\n"


def _turns(chat: Sequence[dict[str, Any]]) -> list[dict[str, str]]:
    turns: list[dict[str, str]] = []
    for message in chat:
        if not is_note(message):
            turns.append({"role": message["role"], "content": text_of(message)})
        elif turns and turns[-1]["role"] == "assistant" and not is_pending(message):
            turns[-1].setdefault("numbers", title_of(message))
    return turns


def _document(text: bytes | str) -> object:
    """Whatever the JSON says, made of text that can be shown: escapes can spell half of a surrogate pair."""
    try:
        document = read_json(text)
        json.dumps(document, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise InvalidRequestError(f"The file has half of a surrogate pair, which is not text. {WAY_OUT}") from None
    except (ValueError, RecursionError):
        raise InvalidRequestError(f"The file is not JSON. {WAY_OUT}") from None
    return document


def _chat_of(turns: object) -> Chat:
    if not isinstance(turns, list):
        raise InvalidRequestError(f'The file has no list "messages". {WAY_OUT}')
    chat: Chat = []
    for number, turn in enumerate(turns, start=1):
        if not _is_message(turn) or not isinstance(turn["content"], str):
            raise InvalidRequestError(f"Message {number} of the file needs a role ({', '.join(ROLES)}) and a text.")
        chat.append(user_message(turn["content"]) if turn["role"] == "user" else assistant_message(turn["content"]))
        if isinstance(numbers := turn.get("numbers"), str):
            chat.append(note(numbers))
    return chat


def _is_message(message: object) -> bool:
    return isinstance(message, dict) and message.get("role") in ROLES and "content" in message
