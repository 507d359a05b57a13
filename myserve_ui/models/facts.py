"""Reads from a model's configuration what the engine must know: its end, its length, its sampling defaults.

And lengths that it names and beyond which something may begin that nobody else knows of.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import TypeGuard

from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from myserve_ui.core.sampling_params import SamplingDefaults, SamplingParams
from myserve_ui.errors import InvalidRequestError, ModelLoadError
from myserve_ui.kernels.attention_formula import configurations_of

logger = logging.getLogger(__name__)

MAX_SHOWN = 40
"""Characters of a value that a line in the log repeats."""

LENGTH_NAMES = ("max_position_embeddings", "n_positions", "max_sequence_length", "seq_length", "n_ctx")
NO_LENGTH_STATED = 2048
"""For models whose positions have no bound and whose tokenizer names none, such as those with linear biases."""

WINDOWS = re.compile(r"window|chunk|local_attention|block_size|block_length", re.IGNORECASE)
OTHERS = re.compile(r"floor_scale|index_topk|index_top_k|compress_rat|switch_length|log_scaling_n", re.IGNORECASE)
NOT_LENGTHS = re.compile(r"chunk_size_feed_forward|layers|mamba|ssm|conv|audio|vision|image|freq|bias", re.IGNORECASE)
STATIC_ROPES = frozenset({"default", "linear", "llama3", "yarn", "proportional", "mrope", "axial"})
"""Their frequencies are the same at every length; an original length that they name is where training ended."""

BY_LENGTH = "llama_4_scaling_beta"
"""Stands beside an original length from which on queries are scaled."""

SHORTEST = 2


def find_end_tokens(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, vocab_size: int) -> frozenset[int]:
    """Union of the end tokens of tokenizer, configuration and generation_config; each may be none, one or several.

    What is no id of the model's `vocab_size` outputs can never be said, so it is left out, with a line in the log.
    """
    stated = (
        tokenizer.eos_token_id,
        getattr(model.config, "eos_token_id", None),
        getattr(model.config.get_text_config(), "eos_token_id", None),
        getattr(model.generation_config, "eos_token_id", None),
    )
    found = [each for value in stated for each in (value if isinstance(value, list | tuple) else [value])]
    unsaid = {repr(each)[:MAX_SHOWN] for each in found if each is not None and not _is_id(each, vocab_size)}
    if unsaid:
        logger.warning(
            "end tokens that the model cannot say are left out: %s; its ids are in [0, %d)",
            ", ".join(sorted(unsaid)),
            vocab_size,
        )
    return frozenset(each for each in found if _is_id(each, vocab_size))


def find_context_length(
    name: str, config: PretrainedConfig, tokenizer: PreTrainedTokenizerBase, *, limit: int | None
) -> int:
    """Tokens, prompt and answer together; `limit` makes it shorter. Raises ModelLoadError if `limit` is longer."""
    layers = configurations_of(config.get_text_config())
    stated = [length for layer in layers if (length := _stated_length(layer)) is not None]
    own = min(stated) if stated else min(tokenizer.model_max_length, NO_LENGTH_STATED)
    if limit is not None and limit > own:
        raise ModelLoadError(
            f"{name} has a context of {own} tokens, less than the {limit} that --max-model-len, MYSERVE_MAX_MODEL_LEN "
            "or its context in the file of models says."
        )
    return own if limit is None else limit


def _stated_length(text: PretrainedConfig) -> int | None:
    stated = [value for each in LENGTH_NAMES if isinstance(value := getattr(text, each, None), int) and value > 0]
    return _stretched(text, stated[0]) if stated else None


def _stretched(text: PretrainedConfig, stated: int) -> int:
    """`stated`, or what the rotary positions were stretched to if that is longer.

    yarn stretches the original length, dynamic NTK the stated one; a configuration may state the length before or
    after. The other kinds state it after (llama3, longrope), or do not say which they mean (linear).
    """
    parameters = getattr(text, "rope_parameters", None) or {}
    factor = parameters.get("factor")
    if not isinstance(factor, int | float) or factor <= 1:
        return stated
    kind = parameters.get("rope_type")
    if kind == "dynamic":
        return int(stated * factor)
    original = parameters.get("original_max_position_embeddings") or stated
    return max(stated, int(original * factor)) if kind == "yarn" else stated


def find_sampling_defaults(name: str, model: PreTrainedModel) -> SamplingDefaults:
    """What the generation_config of the model `name` states; neutral where it states nothing, or what nobody may ask.

    A client that never sent the value would be told that it is wrong.
    """
    stated = {
        each.name: value
        for each in fields(SamplingDefaults)
        if (value := getattr(model.generation_config, each.name, None)) is not None
    }
    for key, value in tuple(stated.items()):
        try:
            SamplingParams(**{key: value})
        except InvalidRequestError as error:
            logger.warning("%s: what its generation_config.json sets is left out: %s", name, error.message)
            del stated[key]
    return SamplingDefaults(**stated)


def _is_id(value: object, vocab_size: int) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < vocab_size


def find_named_borders(config: PretrainedConfig, *, windows_are_known: bool) -> set[int]:
    """Numbers of the text part that may be such lengths.

    With `windows_are_known`, read from the masks themselves, what the configuration says of windows is not of interest.
    """
    return set(_borders(config.get_text_config().to_dict(), windows_are_known))


def _borders(values: Mapping[str, object], windows_are_known: bool) -> Iterator[int]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _borders(value, windows_are_known)
            yield from _rope_borders(value)
        elif NOT_LENGTHS.search(str(name)):
            continue
        elif OTHERS.search(str(name)) or (WINDOWS.search(str(name)) and not windows_are_known):
            yield from (each for each in _numbers(value) if each >= SHORTEST)


def _rope_borders(parameters: Mapping[str, object]) -> Iterator[int]:
    original = parameters.get("original_max_position_embeddings")
    is_static = parameters.get("rope_type", parameters.get("type", "default")) in STATIC_ROPES
    if isinstance(original, int) and (not is_static or parameters.get(BY_LENGTH)):
        yield original


def _numbers(value: object) -> Iterator[int]:
    for each in value if isinstance(value, list | tuple) else [value]:
        if isinstance(each, int | float) and not isinstance(each, bool):
            yield int(each)
