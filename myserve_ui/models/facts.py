"""Reads from a model's configuration what the engine must know: its end, its length, its sampling defaults."""

from __future__ import annotations

from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from myserve_ui.core.sampling_params import SamplingDefaults
from myserve_ui.errors import ModelLoadError

LENGTH_NAMES = ("max_position_embeddings", "n_positions", "max_sequence_length", "seq_length", "n_ctx")
NO_LENGTH_STATED = 2048
"""For models whose positions have no bound and whose tokenizer names none, such as those with linear biases."""


def find_end_tokens(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    """Union of the end tokens of tokenizer, configuration and generation_config; each may be none, one or several."""
    stated = (
        tokenizer.eos_token_id,
        getattr(model.config, "eos_token_id", None),
        getattr(model.config.get_text_config(), "eos_token_id", None),
        getattr(model.generation_config, "eos_token_id", None),
    )
    ids: set[int] = set()
    for value in stated:
        ids.update([value] if isinstance(value, int) else value or ())
    return frozenset(ids)


def find_context_length(
    name: str, config: PretrainedConfig, tokenizer: PreTrainedTokenizerBase, *, limit: int | None
) -> int:
    """Tokens, prompt and answer together; `limit` makes it shorter. Raises ModelLoadError if `limit` is longer."""
    text = config.get_text_config()
    stated = [value for each in LENGTH_NAMES if isinstance(value := getattr(text, each, None), int) and value > 0]
    own = _stretched(text, stated[0]) if stated else min(tokenizer.model_max_length, NO_LENGTH_STATED)
    if limit is not None and limit > own:
        raise ModelLoadError(
            f"--max-model-len or MYSERVE_MAX_MODEL_LEN is {limit}, but {name} has a context of {own} tokens."
        )
    return own if limit is None else limit


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


def _stated(config: object, name: str, neutral: float) -> float:
    value = getattr(config, name, None)
    return neutral if value is None else value
