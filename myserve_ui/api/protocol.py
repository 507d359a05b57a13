"""The body of a chat request, in OpenAI's words: strict types; it knows how to become a request of the service."""

from __future__ import annotations

from typing import Annotated

from pydantic import FailFast, Field, ValidationInfo, field_validator

from myserve_ui.api.chat_message import ChatMessage
from myserve_ui.api.sampling_fields import SamplingFields, Tokens
from myserve_ui.api.tool_fields import Choice, Tools, to_tool_choice, to_tools
from myserve_ui.api.validation import describe, refusal
from myserve_ui.core.requests import ChatRequest
from myserve_ui.core.sampling_params import MAX_TOP_LOGPROBS

<<<<<<< HEAD
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


class ChatMessage(WireModel):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: Annotated[str, BeforeValidator(_join_parts, json_schema_input_type=str | list[dict[str, str]])]
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

=======
>>>>>>> tools

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
