"""Reads from a model's configuration what the engine must know: its end, its length, its sampling defaults."""

from __future__ import annotations

import logging
from dataclasses import fields
from typing import TypeGuard

from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from myserve_ui.core.layer_values import configurations_of
from myserve_ui.core.sampling_params import SamplingDefaults, SamplingParams
from myserve_ui.errors import InvalidRequestError, ModelLoadError

logger = logging.getLogger(__name__)

MAX_SHOWN = 40
"""Characters of a value that a line in the log repeats."""

LENGTH_NAMES = ("max_position_embeddings", "n_positions", "max_sequence_length", "seq_length", "n_ctx")
NO_LENGTH_STATED = 2048
"""For models whose positions have no bound and whose tokenizer names none, such as those with linear biases."""


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
            f"--max-model-len or MYSERVE_MAX_MODEL_LEN is {limit}, but {name} has a context of {own} tokens."
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
