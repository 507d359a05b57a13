"""What bodies of chat and text completions have in common: how tokens are chosen, held to a form, and told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    PlainValidator,
    ValidationInfo,
    field_validator,
    model_validator,
)

from myserve_ui.api.bodies import WireModel
from myserve_ui.api.errors import describe, refusal
from myserve_ui.core.sampling_params import (
    INT64_MAX,
    INT64_MIN,
    MAX_REPETITION_PENALTY,
    MAX_STOP_STRINGS,
    RANGES,
    SamplingParams,
)
from myserve_ui.core.schemas.structured_output import StructuredOutput
from myserve_ui.errors import InvalidRequestError

MAX_STOP_TOKEN_IDS = 256
MAX_BIASED_TOKENS = 1024
"""Every biased token costs time in each step that all requests share."""
MAX_BIAS = 100.0


def as_list(stop: object) -> object:
    """One stop string stands for a list of one."""
    return [stop] if isinstance(stop, str) else stop


def in_range(name: str) -> Any:
    """What a schema says of the sampling parameter `name`."""
    low, high = RANGES[name]
    return Field(json_schema_extra={"minimum": low, "maximum": high})


Tokens = Annotated[int, Field(ge=1, le=INT64_MAX)]
Temperature = Annotated[float, in_range("temperature")]
TopP = Annotated[float, in_range("top_p")]
MinP = Annotated[float, in_range("min_p")]
RepetitionPenalty = Annotated[
    float, Field(json_schema_extra={"exclusiveMinimum": 0, "maximum": MAX_REPETITION_PENALTY})
]
TopK = Annotated[int, Field(json_schema_extra={"minimum": -1})]
Seed = Annotated[int, Field(json_schema_extra={"minimum": INT64_MIN, "maximum": INT64_MAX})]


StopString = Annotated[str, Field(min_length=1)]
StopInput = StopString | Annotated[list[StopString], Field(max_length=MAX_STOP_STRINGS)] | None
StopStrings = Annotated[
    list[str] | None,
    Field(max_length=MAX_STOP_STRINGS),
    BeforeValidator(as_list, json_schema_input_type=StopInput),
]


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """How much one request may ask for, as the operator set it."""

    max_choices: int = 16
    max_prompts: int = 64

    def check(self, num_choices: int, num_prompts: int = 1) -> None:
        """Raise InvalidRequestError for more than that."""
        if num_choices > self.max_choices:
            raise InvalidRequestError(
                f"n must be at most {self.max_choices} on this server, got {describe(num_choices)}.", param="n"
            )
        if num_prompts > self.max_prompts:
            raise InvalidRequestError(
                f"prompt takes at most {self.max_prompts} prompts on this server, got {num_prompts}.", param="prompt"
            )


def _bias_entries(value: object) -> tuple[tuple[int, float], ...] | None:
    """{"50256": -100} as ((50256, -100.0),)."""
    if value is None:
        return None
    if not isinstance(value, dict):
        raise refusal(f"must be an object from token ids to numbers, got {describe(value)}")
    if len(value) > MAX_BIASED_TOKENS:
        raise refusal(f"takes at most {MAX_BIASED_TOKENS} tokens, got {len(value)}")
    return tuple((_token_id(key), _bias(key, bias)) for key, bias in value.items())


def _token_id(key: str) -> int:
    if not (key.isascii() and key.isdecimal() and len(key) < 19 and str(int(key)) == key):
        raise refusal(f"has the key {describe(key)}, which must be a token id such as '42'")
    return int(key)


def _bias(key: str, bias: object) -> float:
    if not isinstance(bias, int | float) or isinstance(bias, bool) or not -MAX_BIAS <= bias <= MAX_BIAS:
        raise refusal(
            f"has {describe(bias)} for the key {describe(key)}, which must be a number in [-{MAX_BIAS:g}, {MAX_BIAS:g}]"
        )
    return float(bias)


class JsonSchemaFields(WireModel):
    name: str | None = None
    description: str | None = None
    schema_: dict[str, object] = Field(alias="schema")
    strict: bool | None = None
    """Accepted and not needed: a schema is always kept."""


class ResponseFormat(WireModel):
    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchemaFields | None = None

    @field_validator("json_schema")
    @classmethod
    def _only_with_its_type(cls, value: JsonSchemaFields | None, info: ValidationInfo) -> JsonSchemaFields | None:
        if value is not None and info.data.get("type", "json_schema") != "json_schema":
            raise refusal(f"goes only with the type 'json_schema', got the type {describe(info.data['type'])}")
        return value

    @model_validator(mode="after")
    def _schema_is_there(self) -> ResponseFormat:
        if self.type == "json_schema" and self.json_schema is None:
            raise refusal("of the type 'json_schema' needs a json_schema with the schema in it")
        return self

    def to_structured_output(self) -> StructuredOutput | None:
        """The form that the answer is held to. Raises InvalidRequestError for a schema that cannot be kept."""
        if self.type == "json_object":
            return StructuredOutput.json_object()
        if self.json_schema is None:
            return None
        return StructuredOutput.json_schema(self.json_schema.schema_, param="response_format.json_schema.schema")


class StreamOptions(WireModel):
    include_usage: bool | None = None


class SamplingFields(WireModel):
    """The fields of both routes that generate. Ranges of numbers are checked by SamplingParams, and only told here."""

    model: Annotated[str, Field(min_length=1)]
    temperature: Temperature | None = None
    top_p: TopP | None = None
    top_k: TopK | None = None
    min_p: MinP | None = None
    presence_penalty: Annotated[float, in_range("presence_penalty")] | None = None
    frequency_penalty: Annotated[float, in_range("frequency_penalty")] | None = None
    repetition_penalty: RepetitionPenalty | None = None
    logit_bias: Annotated[
        tuple[tuple[int, float], ...] | None,
        PlainValidator(_bias_entries, json_schema_input_type=dict[str, float] | None),
    ] = None
    seed: Seed | None = None
    n: Annotated[int, Field(ge=1)] | None = None
    min_tokens: Annotated[int, Field(json_schema_extra={"minimum": 0})] | None = None
    stop: StopStrings = None
    stop_token_ids: Annotated[list[Annotated[int, Field(ge=0)]], Field(max_length=MAX_STOP_TOKEN_IDS)] | None = None
    ignore_eos: bool | None = None
    response_format: ResponseFormat | None = None
    cache_prompt: bool | None = None
    return_token_ids: bool | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None

    @field_validator("stream_options")
    @classmethod
    def _stream_options_need_stream(cls, options: StreamOptions | None, info: ValidationInfo) -> StreamOptions | None:
        if options is not None and not info.data.get("stream"):
            raise refusal("is only allowed with stream: true")
        return options

    @property
    def num_choices(self) -> int:
        return self.n or 1

    @property
    def include_usage(self) -> bool:
        return bool(self.stream_options and self.stream_options.include_usage)

    def sampling_params(self, max_tokens: int | None, logprobs: int | None, *, prompt_logprobs: bool) -> SamplingParams:
        """The parameters as the service takes them. Raises InvalidRequestError for a value out of range."""
        return SamplingParams(
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=self.top_k,
            min_p=self.min_p,
            presence_penalty=self.presence_penalty or 0.0,
            frequency_penalty=self.frequency_penalty or 0.0,
            repetition_penalty=self.repetition_penalty,
            logit_bias=self.logit_bias or (),
            seed=self.seed,
            max_tokens=max_tokens,
            min_tokens=self.min_tokens or 0,
            stop=tuple(self.stop or ()),
            stop_token_ids=tuple(self.stop_token_ids or ()),
            ignore_eos=bool(self.ignore_eos),
            logprobs=logprobs,
            structured_output=None if self.response_format is None else self.response_format.to_structured_output(),
            prompt_logprobs=prompt_logprobs,
        )
