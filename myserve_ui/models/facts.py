"""Reads from a model's configuration what the engine must know: its end, its length, its sampling defaults."""

from __future__ import annotations

import logging
from typing import TypeGuard

from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from myserve_ui.core.sampling_params import SamplingDefaults
from myserve_ui.errors import ModelLoadError

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
    text = config.get_text_config()
    stated = [value for each in LENGTH_NAMES if isinstance(value := getattr(text, each, None), int) and value > 0]
    own = stated[0] if stated else min(tokenizer.model_max_length, NO_LENGTH_STATED)
    if limit is not None and limit > own:
        raise ModelLoadError(
            f"--max-model-len or MYSERVE_MAX_MODEL_LEN is {limit}, but {name} has a context of {own} tokens."
        )
    return own if limit is None else limit


def find_sampling_defaults(model: PreTrainedModel) -> SamplingDefaults:
    """What generation_config states; neutral where it states nothing."""
    neutral, config = SamplingDefaults(), model.generation_config
    return SamplingDefaults(
        temperature=_stated(config, "temperature", neutral.temperature),
        top_p=_stated(config, "top_p", neutral.top_p),
        top_k=int(_stated(config, "top_k", neutral.top_k)),
        min_p=_stated(config, "min_p", neutral.min_p),
        repetition_penalty=_stated(config, "repetition_penalty", neutral.repetition_penalty),
    )


def _is_id(value: object, vocab_size: int) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < vocab_size


def _stated(config: object, name: str, neutral: float) -> float:
    value = getattr(config, name, None)
    return neutral if value is None else value
