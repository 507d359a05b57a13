"""Reads the JSON files of a model's folder, or says in a sentence why not, or which of their values is wrong.

Checked are the values that this code reads itself.
"""

from __future__ import annotations

import codecs
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TypedDict, cast

from myserve_ui.errors import ModelLoadError

SHAPES: Mapping[str, tuple[type, str]] = MappingProxyType(
    {
        "model_type": (str, "a name"),
        "auto_map": (dict, "an object"),
        "architectures": (list, "a list of names"),
    }
)
END_TOKEN_KEYS = ("eos_token_id", "bos_token_id", "pad_token_id")


class RawConfig(TypedDict, total=False):
    """What this code reads itself of a config.json; transformers reads the rest."""

    model_type: str | None
    auto_map: dict[str, str] | None
    """Classes of code that comes with the model, by the transformers class that they stand for."""
    architectures: list[str] | None
    quantization_config: object
    compression_config: object


def read_json_object(path: Path, name: str) -> dict[str, object]:
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


def check_config_values(raw: Mapping[str, object], name: str) -> RawConfig:
    """`raw`, a config.json. Raises ModelLoadError for a value that has another type than any model's, or is NaN."""
    for key, (kind, words) in SHAPES.items():
        if raw.get(key) is not None and not isinstance(raw[key], kind):
            raise ModelLoadError(_wrong(name, "config.json", key, raw[key], words))
    config = cast(RawConfig, raw)
    if not all(isinstance(each, str) for each in config.get("architectures") or ()):
        raise ModelLoadError(_wrong(name, "config.json", "architectures", raw["architectures"], "a list of names"))
    for path, value in walk_values(raw):
        if isinstance(value, float) and math.isnan(value):
            raise ModelLoadError(_wrong(name, "config.json", path, "NaN", "a number"))
    return config


def check_generation_config(raw: Mapping[str, object], name: str) -> None:
    """Raise ModelLoadError for ids in generation_config.json that are none."""
    for key in END_TOKEN_KEYS:
        value = raw.get(key)
        ids = value if isinstance(value, list) else [value]
        if value is not None and not all(isinstance(each, int) and not isinstance(each, bool) for each in ids):
            raise ModelLoadError(_wrong(name, "generation_config.json", key, value, "a token id or a list of them"))


def walk_values(raw: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Every value of `raw` but objects and lists, with the keys that lead to it: rope_parameters.rope_type."""
    if isinstance(raw, Mapping):
        for key, value in raw.items():
            yield from walk_values(value, f"{path}.{key}" if path else str(key))
    elif isinstance(raw, list | tuple):
        for value in raw:
            yield from walk_values(value, path)
    else:
        yield path, raw


def _wrong(name: str, file: str, key: str, value: object, words: str) -> str:
    return (
        f"The {file} of {name} has {str(value)[:40]!r} as {key}, which should be {words}: correct it, or download it "
        "again."
    )
