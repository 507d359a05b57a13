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
