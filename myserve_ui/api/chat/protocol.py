"""A chat on the wire, in OpenAI's words: the body of a request, its answer, and the chunks of a streamed one."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired

from pydantic import BeforeValidator, FailFast, Field, ValidationInfo, field_validator
from typing_extensions import TypedDict

from myserve_ui.api.bodies import WireModel
from myserve_ui.api.chat.tools import Call, CallDelta, Choice, ToolCallFields, Tools, to_tool_choice, to_tools
from myserve_ui.api.errors import describe, refusal
from myserve_ui.api.logprobs import ChatLogprobs
from myserve_ui.api.render import ChoiceEnd, Envelope, ReplyUsage
from myserve_ui.api.sampling import SamplingFields, Tokens
from myserve_ui.core.requests import ChatRequest, Message
from myserve_ui.core.sampling_params import MAX_TOP_LOGPROBS
from myserve_ui.core.tools import MAX_TOOLS


class TextPart(TypedDict):
    type: Literal["text"]
    text: str


def _join_parts(content: object, info: ValidationInfo) -> object:
    """Content as one string: text parts are joined with nothing between."""
    if content is None:
        if info.data.get("tool_calls"):
            return ""
        raise refusal("must be a string or an array of text parts; null goes only with tool_calls of the assistant")
    if not isinstance(content, list):
        return content
    return "".join(_part_text(part, index) for index, part in enumerate(content))


def _part_text(part: object, index: int) -> str:
    if not isinstance(part, dict):
        raise refusal(f"part {index} must be an object with type and text, got {describe(part)}")
    if part.get("type") != "text":
        raise refusal(
            f"part {index} must have the type 'text', the only one supported, got {describe(part.get('type'))}"
        )
    if not isinstance(part.get("text"), str):
        raise refusal(f"part {index} must have a string as its text, got {describe(part.get('text'))}")
    return str(part["text"])


class ChatMessage(WireModel):
    # the order matters: what stands below is checked against what stands above
    role: Literal["system", "developer", "user", "assistant", "tool"]
    tool_calls: Annotated[list[ToolCallFields], Field(max_length=MAX_TOOLS)] | None = None
    tool_call_id: Annotated[str | None, Field(validate_default=True)] = None
    content: Annotated[
        str,
        BeforeValidator(_join_parts, json_schema_input_type=str | list[TextPart] | None),
        Field(validate_default=True),
    ] = None  # type: ignore[assignment]
    name: str | None = None
    function_call: object = None
    audio: object = None

    @field_validator("tool_calls")
    @classmethod
    def _only_the_assistant_calls(
        cls, calls: list[ToolCallFields] | None, info: ValidationInfo
    ) -> list[ToolCallFields] | None:
        if calls and info.data.get("role", "assistant") != "assistant":
            raise refusal(f"goes only with the role 'assistant', got {describe(info.data['role'])}")
        return calls

    @field_validator("tool_call_id")
    @classmethod
    def _results_say_which_call(cls, call_id: str | None, info: ValidationInfo) -> str | None:
        if call_id is None and info.data.get("role") == "tool":
            raise refusal("is required with the role 'tool': the id of the call that this answers")
        return call_id

    @field_validator("function_call", "audio")
    @classmethod
    def _refuse_other_content(cls, value: object) -> object:
        if value:
            raise refusal("is not supported by this server; leave it out")
        return value

    def to_message(self) -> Message:
        return Message(
            role="system" if self.role == "developer" else self.role,
            content=self.content,
            tool_calls=tuple(call.to_call() for call in self.tool_calls or ()),
            tool_call_id=self.tool_call_id if self.role == "tool" else None,
        )


class ChatCompletionBody(SamplingFields):
    messages: Annotated[list[ChatMessage], Field(min_length=1), FailFast()]
    max_tokens: Tokens | None = None
    max_completion_tokens: Tokens | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=MAX_TOP_LOGPROBS)] | None = None
    continue_final_message: bool | None = None
    tools: Tools | None = None
    tool_choice: Choice = None
    parallel_tool_calls: bool | None = None

    @field_validator("top_logprobs")
    @classmethod
    def _top_logprobs_need_logprobs(cls, value: int | None, info: ValidationInfo) -> int | None:
        if value and not info.data.get("logprobs"):
            raise refusal(f"is only allowed with logprobs: true, got {value}")
        return value

    @field_validator("max_completion_tokens")
    @classmethod
    def _agree_with_max_tokens(cls, value: int | None, info: ValidationInfo) -> int | None:
        other = info.data.get("max_tokens")
        if None not in (value, other) and value != other:
            raise refusal(
                f"is another name of max_tokens, and {describe(value)} is not {describe(other)}; send one of them"
            )
        return value

    @field_validator("continue_final_message")
    @classmethod
    def _only_an_answer_can_be_continued(cls, value: bool | None, info: ValidationInfo) -> bool | None:
        messages = info.data.get("messages")
        if value and messages and messages[-1].role != "assistant":
            raise refusal("needs a last message of the role 'assistant'")
        return value

    def to_request(self) -> ChatRequest:
        max_tokens = self.max_tokens if self.max_completion_tokens is None else self.max_completion_tokens
        tools = to_tools(self.tools or ())
        return ChatRequest(
            messages=tuple(message.to_message() for message in self.messages),
            model=self.model,
            params=self.sampling_params(
                max_tokens, (self.top_logprobs or 0) if self.logprobs else None, prompt_logprobs=False
            ),
            continue_final_message=bool(self.continue_final_message),
            cache_prompt=self.cache_prompt is not False,
            tools=tools,
            tool_choice=to_tool_choice(self.tool_choice, tools),
            parallel_tool_calls=self.parallel_tool_calls is not False,
        )


class AnswerMessage(TypedDict):
    role: Literal["assistant"]
    content: str | None
    refusal: None
    tool_calls: NotRequired[list[Call]]


class ChatChoice(ChoiceEnd):
    index: int
    message: AnswerMessage
    logprobs: ChatLogprobs | None


class ChatCompletion(Envelope):
    object: Literal["chat.completion"]
    choices: list[ChatChoice]
    usage: ReplyUsage
    prompt_token_ids: NotRequired[list[int]]


class ChatDelta(TypedDict, total=False):
    role: Literal["assistant"]
    content: str
    tool_calls: list[CallDelta]


class ChatChunkChoice(ChoiceEnd):
    index: int
    delta: ChatDelta
    logprobs: ChatLogprobs | None


class ChatCompletionChunk(Envelope):
    object: Literal["chat.completion.chunk"]
    choices: list[ChatChunkChoice]
    usage: NotRequired[ReplyUsage | None]
    prompt_token_ids: NotRequired[list[int]]
