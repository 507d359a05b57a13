"""The bodies of /tokenize and /detokenize."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, PlainValidator, model_validator

from myserve_ui.api.chat_message import ChatMessage
from myserve_ui.api.completion_protocol import read_token_ids
from myserve_ui.api.validation import refusal
from myserve_ui.api.wire_model import WireModel
from myserve_ui.core.requests import ChatRequest, CompletionRequest


class TokenizeBody(WireModel):
    """A text, or the messages of a chat, whose template is rendered then."""

    model: str | None = None
    content: str | None = None
    messages: Annotated[list[ChatMessage], Field(min_length=1, fail_fast=True)] | None = None
    add_special: bool | None = None
    """Whether a text gets the special tokens that the tokenizer itself adds, such as BOS; true if absent."""

    @model_validator(mode="after")
    def _one_of_both(self) -> TokenizeBody:
        if (self.content is None) == (self.messages is None):
            raise refusal("needs either content or messages")
        return self

    def to_request(self) -> ChatRequest | CompletionRequest:
        model = self.model or ""
        if self.messages is not None:
            return ChatRequest(tuple(message.to_message() for message in self.messages), model=model)
        return CompletionRequest(self.content or "", model=model)


class DetokenizeBody(WireModel):
    tokens: Annotated[tuple[int, ...], PlainValidator(read_token_ids, json_schema_input_type=list[int])]
    model: str | None = None
