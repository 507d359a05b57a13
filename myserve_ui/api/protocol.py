"""The body of a chat request, in OpenAI's words: strict types; it knows how to become a request of the service."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, FailFast, Field, field_validator

from myserve_ui.api.validation import describe, refusal
from myserve_ui.core.requests import ChatRequest, Message
from myserve_ui.core.sampling_params import INT64_MAX, MAX_STOP_STRINGS, SamplingParams

MAX_STOP_TOKEN_IDS = 256

_TOOL_FIELDS = ("tool_calls", "function_call", "audio")


def _join_parts(content: Any) -> Any:
    """Content as one string: text parts are joined with nothing between."""
    if content is None:
        raise refusal(
            "must be a string or an array of text parts; null goes only with tool calls, which are not supported"
        )
    if not isinstance(content, list):
        return content
    return "".join(_part_text(part, index) for index, part in enumerate(content))


def _part_text(part: Any, index: int) -> str:
    if not isinstance(part, dict):
        raise refusal(f"part {index} must be an object with type and text, got {describe(part)}")
    if part.get("type") != "text":
        raise refusal(
            f"part {index} must have the type 'text', the only one supported, got {describe(part.get('type'))}"
        )
    if not isinstance(part.get("text"), str):
        raise refusal(f"part {index} must have a string as its text, got {describe(part.get('text'))}")
    return str(part["text"])


def _as_list(stop: Any) -> Any:
    return [stop] if isinstance(stop, str) else stop


class WireModel(BaseModel):
    """A body, or a part of one: no conversion between types, unknown fields ignored."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")


class ChatMessage(WireModel):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: Annotated[str, BeforeValidator(_join_parts)]
    name: str | None = None
    tool_calls: Any = None
    function_call: Any = None
    audio: Any = None

    @field_validator("role")
    @classmethod
    def _refuse_tool_role(cls, role: str) -> str:
        if role == "tool":
            raise refusal("'tool' is not supported: this server has no tools yet")
        return role

    @field_validator(*_TOOL_FIELDS)
    @classmethod
    def _refuse_tool_fields(cls, value: Any) -> Any:
        if value:
            raise refusal("is not supported by this server; leave it out")
        return value

    def to_message(self) -> Message:
        return Message(role="system" if self.role == "developer" else self.role, content=self.content)


class StreamOptions(WireModel):
    include_usage: bool | None = None


class SamplingFields(WireModel):
    """What chat and completions have in common. Ranges are checked by SamplingParams."""

    model: Annotated[str, Field(min_length=1)]
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    seed: int | None = None
    max_tokens: Annotated[int, Field(ge=1, le=INT64_MAX)] | None = None
    min_tokens: int | None = None
    stop: Annotated[list[str] | None, Field(max_length=MAX_STOP_STRINGS), BeforeValidator(_as_list)] = None
    stop_token_ids: Annotated[list[Annotated[int, Field(ge=0)]], Field(max_length=MAX_STOP_TOKEN_IDS)] | None = None
    ignore_eos: bool | None = None
    cache_prompt: bool | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None

    @field_validator("stream_options")
    @classmethod
    def _stream_options_need_stream(cls, options: StreamOptions | None, info: Any) -> StreamOptions | None:
        if options is not None and not info.data.get("stream"):
            raise refusal("is only allowed with stream: true")
        return options

    @property
    def include_usage(self) -> bool:
        return bool(self.stream_options and self.stream_options.include_usage)

    def sampling_params(self, max_tokens: int | None) -> SamplingParams:
        """The parameters as the service takes them. Raises InvalidRequestError for a value out of range."""
        return SamplingParams(
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=self.top_k,
            min_p=self.min_p,
            seed=self.seed,
            max_tokens=max_tokens,
            min_tokens=self.min_tokens or 0,
            stop=tuple(self.stop or ()),
            stop_token_ids=tuple(self.stop_token_ids or ()),
            ignore_eos=bool(self.ignore_eos),
        )


class ChatCompletionBody(SamplingFields):
    messages: Annotated[list[ChatMessage], Field(min_length=1), FailFast()]
    max_completion_tokens: Annotated[int, Field(ge=1, le=INT64_MAX)] | None = None
    continue_final_message: bool | None = None

    @field_validator("max_completion_tokens")
    @classmethod
    def _agree_with_max_tokens(cls, value: int | None, info: Any) -> int | None:
        other = info.data.get("max_tokens")
        if None not in (value, other) and value != other:
            raise refusal(
                f"is another name of max_tokens, and {describe(value)} is not {describe(other)}; send one of them"
            )
        return value

    @field_validator("continue_final_message")
    @classmethod
    def _only_an_answer_can_be_continued(cls, value: bool | None, info: Any) -> bool | None:
        messages = info.data.get("messages")
        if value and messages and messages[-1].role != "assistant":
            raise refusal("needs a last message of the role 'assistant'")
        return value

    def to_request(self) -> ChatRequest:
        max_tokens = self.max_tokens if self.max_completion_tokens is None else self.max_completion_tokens
        return ChatRequest(
            messages=tuple(message.to_message() for message in self.messages),
            model=self.model,
            params=self.sampling_params(max_tokens),
            continue_final_message=bool(self.continue_final_message),
            cache_prompt=self.cache_prompt is not False,
        )
