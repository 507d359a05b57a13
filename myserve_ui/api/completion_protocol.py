"""The bodies of the routes that continue a text: /v1/completions, /generate and /stream."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PlainValidator

from myserve_ui.api.protocol import SamplingFields, WireModel
from myserve_ui.api.validation import describe, refusal
from myserve_ui.core.requests import CompletionRequest
from myserve_ui.core.sampling_params import INT64_MAX, SamplingParams

DEFAULT_COMPLETION_TOKENS = 16
"""OpenAI's default for max_tokens in /v1/completions."""
DEFAULT_PLAIN_TOKENS = 128
"""The plain routes' default for max_new_tokens."""


def _one_prompt(prompt: Any) -> str | tuple[int, ...]:
    if isinstance(prompt, str):
        return prompt
    if not isinstance(prompt, list) or not prompt:
        raise refusal(f"must be a string or a non-empty array of token ids, got {describe(prompt)}")
    if all(isinstance(item, str) for item in prompt) or all(isinstance(item, list) for item in prompt):
        raise refusal("must be a single prompt; several in one request are not supported by this server")
    for index, token_id in enumerate(prompt):
        if not isinstance(token_id, int) or isinstance(token_id, bool) or token_id < 0:
            raise refusal(f"must hold token ids, whole numbers from 0 on; item {index} is {describe(token_id)}")
    return tuple(prompt)


class CompletionBody(SamplingFields):
    prompt: Annotated[str | tuple[int, ...], PlainValidator(_one_prompt)]

    def to_request(self) -> CompletionRequest:
        max_tokens = DEFAULT_COMPLETION_TOKENS if self.max_tokens is None else self.max_tokens
        return CompletionRequest(
            prompt=self.prompt,
            model=self.model,
            params=self.sampling_params(max_tokens),
            cache_prompt=self.cache_prompt is not False,
        )


def _default_length(value: Any) -> Any:
    return DEFAULT_PLAIN_TOKENS if value is None else value


class PlainBody(WireModel):
    """{"prompt", "max_new_tokens"}: the default model goes on with the text, greedily."""

    prompt: str
    max_new_tokens: Annotated[int, Field(ge=1, le=INT64_MAX), BeforeValidator(_default_length)] = DEFAULT_PLAIN_TOKENS

    def to_request(self) -> CompletionRequest:
        params = SamplingParams(temperature=0.0, max_tokens=self.max_new_tokens)
        return CompletionRequest(prompt=self.prompt, params=params)
