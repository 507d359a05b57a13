"""/tokenize and /detokenize: what a text, or a chat, is to a model, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Request, Response
from pydantic import Field, PlainValidator, model_validator
from typing_extensions import TypedDict

from myserve_ui.api.bodies import WireModel
from myserve_ui.api.chat.protocol import ChatMessage
from myserve_ui.api.completions.protocol import read_token_ids
from myserve_ui.api.errors import refusal
from myserve_ui.api.responses import json_response, while_connected
from myserve_ui.core.requests import ChatRequest, CompletionRequest

if TYPE_CHECKING:
    from myserve_ui.serving.chat_service import ChatService


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


class TokenizeReply(TypedDict):
    tokens: list[int]
    count: int


class DetokenizeBody(WireModel):
    tokens: Annotated[tuple[int, ...], PlainValidator(read_token_ids, json_schema_input_type=list[int])]
    model: str | None = None


class DetokenizeReply(TypedDict):
    content: str


def add_token_routes(router: APIRouter, service: ChatService) -> None:
    """Add the two routes over `service`."""

    @router.post("/tokenize", response_model=TokenizeReply)
    async def tokenize(body: TokenizeBody, request: Request) -> Response:
        """The token ids of a text, or of a chat as the model reads it."""
        working = service.tokenize(body.to_request(), add_special_tokens=body.add_special is not False)
        token_ids = await while_connected(request.receive, working)
        reply: TokenizeReply = {"tokens": token_ids, "count": len(token_ids)}
        return json_response(reply)

    @router.post("/detokenize", response_model=DetokenizeReply)
    async def detokenize(body: DetokenizeBody, request: Request) -> Response:
        """The text of token ids."""
        text = await while_connected(request.receive, service.detokenize(body.tokens, body.model or ""))
        reply: DetokenizeReply = {"content": text}
        return json_response(reply)
