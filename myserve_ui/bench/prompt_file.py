"""Prompts of a file: one a line, or ShareGPT-like JSON; whatever cannot be read is told in a sentence."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from myserve_ui.errors import InvalidRequestError

NOT_JSON = object()
SHAPES = 'a text, or {"conversations": [{"value": text}, ...]}'


def read_prompts(path: Path) -> tuple[str, ...]:
    """Prompts of a text file (one a line), of a JSON list or conversation, or of JSON lines.

    A conversation gives its first turn; one without turns is left out. A file whose name does not end in .json or
    .jsonl is JSON only if all of it can be read as such. Raises InvalidRequestError if it cannot be read or holds none.
    """
    text = _read_text(path)
    entries = _entries(text, path)
    prompts = _lines(text) if entries is None else list(_prompts(entries, path.name))
    if not any(prompts):
        raise _refusal(f"{path.name} holds no prompt; write one a line.")
    return tuple(prompt for prompt in prompts if prompt)


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise _refusal(f"{path.name} cannot be read as UTF-8 text.") from None
    except OSError as error:
        raise _refusal(f"The prompts of {path} cannot be read: {error.strerror}.") from None


def _entries(text: str, path: Path) -> list[Any] | None:
    """What stands in JSON; None for lines of text."""
    if path.suffix.lower() == ".jsonl":
        return _json_lines(text, path.name)
    found = _read_json(text) if text.lstrip()[:1] in ("[", "{") else NOT_JSON
    if isinstance(found, list | dict):
        return found if isinstance(found, list) else [found]
    if path.suffix.lower() == ".json":
        raise _refusal(f"{path.name} is no JSON list of prompts; each is {SHAPES}.")
    return _objects_by_line(text)


def _json_lines(text: str, name: str) -> list[Any]:
    entries = [_read_json(line) for line in _lines(text)]
    if NOT_JSON in entries:
        raise _refusal(f"Entry {entries.index(NOT_JSON) + 1} of {name} is no JSON.")
    return entries


def _objects_by_line(text: str) -> list[Any] | None:
    """The objects of JSON lines under another name; None if any line is something else."""
    lines = _lines(text)
    if not lines or not all(line.startswith("{") for line in lines):
        return None
    entries = [_read_json(line) for line in lines]
    return entries if all(isinstance(entry, dict) for entry in entries) else None


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.split("\n") if line.strip()]


def _read_json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return NOT_JSON


def _prompts(entries: Sequence[Any], name: str) -> Iterator[str]:
    for number, entry in enumerate(entries, 1):
        prompt = entry if isinstance(entry, str) else _first_turn(entry)
        if prompt is None:
            raise _refusal(f"Entry {number} of {name} is no prompt; each is {SHAPES}.")
        yield prompt.strip()


def _first_turn(entry: Any) -> str | None:
    """The first text of a conversation, "" if it has no turns; None if it is no conversation."""
    turns = entry.get("conversations") if isinstance(entry, dict) else None
    if not isinstance(turns, list):
        return None
    first = turns[0] if turns else {"value": ""}
    value = first.get("value") if isinstance(first, dict) else None
    return value if isinstance(value, str) else None


def _refusal(message: str) -> InvalidRequestError:
    return InvalidRequestError(message, param="prompts")
