"""What is wrong with a request, as far as only the loaded model can tell: lengths and token ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from myserve_ui.core.requests import ChatRequest
from myserve_ui.core.sampling_params import SamplingParams
from myserve_ui.engine.sequence import EngineRequest
from myserve_ui.errors import ContextLengthExceededError, InvalidRequestError
from myserve_ui.models.loaded_model import LoadedModel

MAX_SHOWN = 40
"""Characters of what was sent that an error repeats."""


def fit_to_context(
    params: SamplingParams, num_prompt_tokens: int, context_length: int, *, default: int | None = None
) -> SamplingParams:
    """`params` with max_tokens set; raises if prompt and answer together are longer than the context.

    `default` is the length of an answer that nobody asked a length for, as far as there is room; None: all of it.
    """
    room = context_length - num_prompt_tokens
    if params.max_tokens is not None and params.max_tokens > room:
        raise ContextLengthExceededError(
            f"The prompt has {num_prompt_tokens} tokens and max_tokens is {params.max_tokens}, together more than the "
            f"context of {context_length}. Ask for at most {room} tokens, or send a shorter prompt.",
            param="max_tokens",
        )
    max_tokens = params.max_tokens
    if max_tokens is None:
        max_tokens = room if default is None else min(max(default, params.min_tokens), room)
    return replace(params, max_tokens=max_tokens, min_tokens=min(params.min_tokens, room))


def check_prompt(num_tokens: int, context_length: int, field: str) -> None:
    if not num_tokens:
        raise InvalidRequestError("The prompt is empty; send at least one token.", param=field)
    if num_tokens >= context_length:
        raise ContextLengthExceededError(
            f"The prompt has {num_tokens} tokens and the context holds {context_length}, of which one at least "
            "is for the answer. Send a shorter prompt.",
            param=field,
        )


def check_continuation(request: ChatRequest) -> None:
    """A form holds for a whole answer, so a half-written one cannot be held to it."""
    if request.continue_final_message and request.params.structured_output is not None:
        raise InvalidRequestError(
            "continue_final_message cannot go with a response_format: the form would begin anew in the middle. "
            "Leave one of them out.",
            param="continue_final_message",
        )


def other_choice(first: EngineRequest, choice: int) -> EngineRequest:
    """The same request for another answer; the prompt's own scores are the first one's to report."""
    return replace(
        first,
        request_id=f"{first.request_id}-{choice}",
        params=replace(first.params, prompt_logprobs=False),
        choice=choice,
        parent=first.request_id,
    )


def check_token_ids(token_ids: Sequence[int], num_ids: int, param: str) -> None:
    """Refuse ids that a client sent and the model lacks; `num_ids` are the rows that they would be looked up in."""
    for token_id in token_ids:
        if not 0 <= token_id < num_ids:
            raise InvalidRequestError(f"Token ids must be in [0, {num_ids}), got {_shown(token_id)}.", param=param)


def check_encoded_ids(token_ids: Sequence[int], loaded: LoadedModel, param: str) -> None:
    """Refuse a text, or a rendered chat, that the tokenizer encodes to ids which the model's embedding lacks."""
    num_ids = loaded.num_input_ids
    if not token_ids or max(token_ids) < num_ids:
        return
    tokenizer, token_id = loaded.tokenizer, next(each for each in token_ids if each >= num_ids)
    piece = tokenizer.special_tokens.get(token_id) or tokenizer.decode([token_id])
    raise InvalidRequestError(
        f"{piece[:MAX_SHOWN]!r} is token {token_id} of this model's tokenizer, and the model knows the ids in "
        f"[0, {num_ids}) only. Leave it out of the text (or of the chat template, if that is what writes it), or load "
        "the model with the tokenizer that it was trained with.",
        param=param,
    )


def check_scored_ids(token_ids: Sequence[int], loaded: LoadedModel, param: str) -> None:
    """Refuse a prompt that is to be scored, and holds ids that the model can read but never says."""
    if token_ids and max(token_ids) >= loaded.tokenizer.vocab_size:
        raise InvalidRequestError(
            f"Token {max(token_ids)} has no log-probability: the model's output has the ids in "
            f"[0, {loaded.tokenizer.vocab_size}) only. Leave it out, or ask for no scores of the prompt.",
            param=param,
        )


def _shown(token_id: int) -> str:
    """A number as it may be told back: a client's may have thousands of digits."""
    return str(token_id) if abs(token_id) < 10**MAX_SHOWN else "a huge number"
