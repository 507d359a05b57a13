"""Lengths that a configuration names and beyond which something may begin that nobody else knows of."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from transformers import PretrainedConfig

WINDOWS = re.compile(r"window|chunk|local_attention|block_size|block_length", re.IGNORECASE)
OTHERS = re.compile(r"floor_scale|index_topk|index_top_k|compress_rat|switch_length|log_scaling_n", re.IGNORECASE)
NOT_LENGTHS = re.compile(r"chunk_size_feed_forward|layers|mamba|ssm|conv|audio|vision|image|freq|bias", re.IGNORECASE)
STATIC_ROPES = frozenset({"default", "linear", "llama3", "yarn", "proportional", "mrope", "axial"})
"""Their frequencies are the same at every length; an original length that they name is where training ended."""
BY_LENGTH = "llama_4_scaling_beta"
"""Stands beside an original length from which on queries are scaled."""
SHORTEST = 2


def find_named_borders(config: PretrainedConfig, *, windows_are_known: bool) -> set[int]:
    """Numbers of the text part that may be such lengths.

    With `windows_are_known`, read from the masks themselves, what the configuration says of windows is not of interest.
    """
    return set(_borders(config.get_text_config().to_dict(), windows_are_known))


def _borders(values: Mapping[str, Any], windows_are_known: bool) -> Iterator[int]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _borders(value, windows_are_known)
            yield from _rope_borders(value)
        elif NOT_LENGTHS.search(str(name)):
            continue
        elif OTHERS.search(str(name)) or (WINDOWS.search(str(name)) and not windows_are_known):
            yield from (each for each in _numbers(value) if each >= SHORTEST)


def _rope_borders(parameters: Mapping[str, Any]) -> Iterator[int]:
    original = parameters.get("original_max_position_embeddings")
    is_static = parameters.get("rope_type", parameters.get("type", "default")) in STATIC_ROPES
    if isinstance(original, int) and (not is_static or parameters.get(BY_LENGTH)):
        yield original


def _numbers(value: Any) -> Iterator[int]:
    for each in value if isinstance(value, list | tuple) else [value]:
        if isinstance(each, int | float) and not isinstance(each, bool):
            yield int(each)
