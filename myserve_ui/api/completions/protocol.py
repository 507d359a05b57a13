"""Text completions on the wire: bodies and answers of /v1/completions, /generate and /stream."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired

from pydantic import Field, PlainValidator, ValidationInfo, field_validator
from typing_extensions import TypedDict

from myserve_ui.api.bodies import WireModel
from myserve_ui.api.errors import describe, refusal
from myserve_ui.api.logprobs import TextLogprobs
from myserve_ui.api.render import ChoiceEnd, Envelope, ReplyUsage
from myserve_ui.api.sampling import SamplingFields
from myserve_ui.core.requests import CompletionRequest
from myserve_ui.core.sampling_params import INT64_MAX, SamplingParams

DEFAULT_PLAIN_TOKENS = 128
"""The plain routes' default for max_new_tokens, as far as the context has room."""
MAX_TEXT_LOGPROBS = 5

Prompt = str | tuple[int, ...]
PromptInput = str | list[str] | list[int] | list[list[int]]


def read_token_ids(value: object, where: str = "") -> tuple[int, ...]:
    """An array of ids; `where` says which part of the field it is."""
    if not isinstance(value, list):
        raise refusal(f"{where}must be an array of token ids, got {describe(value)}")
    for index, token_id in enumerate(value):
        if not isinstance(token_id, int) or isinstance(token_id, bool) or token_id < 0:
            raise refusal(f"{where}must hold token ids, whole numbers from 0 on; item {index} is {describe(token_id)}")
    return tuple(value)


def read_prompts(value: object) -> tuple[Prompt, ...]:
    """One or several prompts: a string, ids, or a list of strings or of lists of ids."""
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, list) or not value:
        raise refusal(f"must be a string, an array of token ids, or a non-empty array of those, got {describe(value)}")
    if not isinstance(value[0], str | list):
        return (read_token_ids(value),)
    if all(isinstance(item, str) for item in value):
        return tuple(value)
    prompts = [read_token_ids(item, f"[{index}] ") for index, item in enumerate(value)]
    if not all(prompts):
        raise refusal(f"[{prompts.index(())}] must hold at least one token id")
    return tuple(prompts)


class CompletionBody(SamplingFields):
    prompt: Annotated[tuple[Prompt, ...], PlainValidator(read_prompts, json_schema_input_type=PromptInput)]
    echo: bool | None = None
    max_tokens: Annotated[int, Field(ge=0, le=INT64_MAX)] | None = None
    logprobs: Annotated[int, Field(ge=0, le=MAX_TEXT_LOGPROBS)] | None = None

    @field_validator("max_tokens")
    @classmethod
    def _nothing_only_with_echo(cls, value: int | None, info: ValidationInfo) -> int | None:
        if value == 0 and not info.data.get("echo"):
            raise refusal("must be at least 1 unless echo is true, got 0")
        return value

    def to_requests(self) -> list[CompletionRequest]:
        """One request for each prompt, in order."""
        params = self.sampling_params(
            self.max_tokens, self.logprobs, prompt_logprobs=bool(self.echo) and self.logprobs is not None
        )
        return [
            CompletionRequest(
                prompt=prompt, model=self.model, params=params, cache_prompt=self.cache_prompt is not False
            )
            for prompt in self.prompt
        ]


class PlainBody(WireModel):
    """{"prompt", "max_new_tokens"}: the default model goes on with the text, greedily."""

    prompt: str
    max_new_tokens: Annotated[int, Field(ge=1, le=INT64_MAX)] | None = None

    def to_request(self) -> CompletionRequest:
        params = SamplingParams(temperature=0.0, max_tokens=self.max_new_tokens)
        return CompletionRequest(prompt=self.prompt, params=params, default_max_tokens=DEFAULT_PLAIN_TOKENS)


class TextChoice(ChoiceEnd):
    index: int
    text: str
    logprobs: TextLogprobs | None
    prompt_token_ids: NotRequired[list[int]]


class TextCompletion(Envelope):
    object: Literal["text_completion"]
    choices: list[TextChoice]
    usage: ReplyUsage


class TextCompletionChunk(Envelope):
    object: Literal["text_completion"]
    choices: list[TextChoice]
    usage: NotRequired[ReplyUsage | None]


class PlainReply(TypedDict):
    text: str
    prompt_tokens: int
    output_tokens: int
