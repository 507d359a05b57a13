"""Reads a JSON object of a model's folder, or says in a sentence why it cannot be read."""

from __future__ import annotations

import codecs
import json
from pathlib import Path
from typing import Any

from myserve_ui.errors import ModelLoadError


def read_json_object(path: Path, name: str) -> dict[str, Any]:
    """The object in `path`, a file of the model `name`. Raises ModelLoadError; FileNotFoundError if it is not there."""
    what = f"The {path.name} of {name}"
    if not path.is_file() and (path.is_dir() or path.is_symlink()):
        kind = "is a folder" if path.is_dir() else "is a link to a file that is not there"
        raise ModelLoadError(f"{what} {kind}: put the file in its place.")
    raw = path.read_bytes()
    if raw.startswith((codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise ModelLoadError(f"{what} begins with a byte order mark, as JSON must not: save it as UTF-8 without one.")
    try:
        value = json.loads(raw.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ModelLoadError(f"{what} is damaged ({_where(error)}): download or copy it again.") from None
    if not isinstance(value, dict):
        raise ModelLoadError(f"{what} is damaged (it holds no object in braces): download or copy it again.")
    return value


def _where(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"line {error.lineno}, column {error.colno}: {error.msg}"
    return "it is no text in UTF-8" if isinstance(error, UnicodeError) else "it is nested too deep"
