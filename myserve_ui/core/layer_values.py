"""Reads a configuration whose layers may differ: transformers raises for a value that they do not share."""

from __future__ import annotations

from typing import Any


def configurations_of(text: Any) -> tuple[Any, ...]:
    """One for each layer of the text part `text` where they differ, else `text` alone, which holds for all."""
    return tuple(text.per_layer_config) if getattr(text, "is_heterogeneous", False) else (text,)
