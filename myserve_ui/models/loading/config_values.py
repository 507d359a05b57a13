"""Checks the values of a model's configuration files that this code reads itself, and says which of them is wrong."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from myserve_ui.errors import ModelLoadError

SHAPES: Mapping[str, tuple[type, str]] = MappingProxyType(
    {
        "model_type": (str, "a name"),
        "auto_map": (dict, "an object"),
        "architectures": (list, "a list of names"),
    }
)
END_TOKEN_KEYS = ("eos_token_id", "bos_token_id", "pad_token_id")


def check_config_values(raw: Mapping[str, Any], name: str) -> None:
    """Raise ModelLoadError for a value of config.json that has another type than any model's, or is NaN."""
    for key, (kind, words) in SHAPES.items():
        if raw.get(key) is not None and not isinstance(raw[key], kind):
            raise ModelLoadError(_wrong(name, "config.json", key, raw[key], words))
    if not all(isinstance(each, str) for each in raw.get("architectures") or ()):
        raise ModelLoadError(_wrong(name, "config.json", "architectures", raw["architectures"], "a list of names"))
    for path, value in walk_values(raw):
        if isinstance(value, float) and math.isnan(value):
            raise ModelLoadError(_wrong(name, "config.json", path, "NaN", "a number"))


def check_generation_config(raw: Mapping[str, Any], name: str) -> None:
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
