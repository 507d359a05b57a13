"""POST /v1/chat/completions: what a chat asks for, and how its answer is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter, Request, Response

from myserve_ui.api.chat.protocol import (
    AnswerMessage,
    ChatChoice,
    ChatChunkChoice,
    ChatCompletion,
    ChatCompletionBody,
    ChatDelta,
)
from myserve_ui.api.chat.tools import call_delta, whole_calls
from myserve_ui.api.logprobs import LogprobWriter
from myserve_ui.api.pieces import AnswerOptions, Piece
from myserve_ui.api.render import Generation, Responder, write_end
from myserve_ui.api.responses import JsonObject, with_cache
from myserve_ui.api.sampling import RequestLimits
from myserve_ui.serving.request_stream import StreamGroup

if TYPE_CHECKING:
    from myserve_ui.serving.chat_service import ChatService


def add_chat_route(router: APIRouter, service: ChatService, responder: Responder, limits: RequestLimits) -> None:
    """Add the route over `service`."""

    @router.post("/v1/chat/completions", response_model=ChatCompletion)
    async def create_chat_completion(body: ChatCompletionBody, request: Request) -> Response:
        """Answer a chat, whole or streamed."""
        limits.check(body.num_choices)
        asked = with_cache(body.to_request(), request)
        options = AnswerOptions(body.num_choices, logprobs=bool(body.logprobs), token_ids=bool(body.return_token_ids))
        generation = Generation(
            start=lambda: service.start_chat_choices(asked, body.num_choices),
            shape=ChatShape,
            options=options,
            id_prefix="chatcmpl",
            include_usage=body.include_usage,
        )
        return await responder.respond(request, generation, stream=bool(body.stream))


class ChatShape:
    """chat.completion and its chunks. Prompt ids stand beside the choices, since all have one prompt."""

    whole_name = "chat.completion"
    chunk_name = "chat.completion.chunk"

    def __init__(self, group: StreamGroup, options: AnswerOptions) -> None:
        self._writer = LogprobWriter(group.streams[0].tokenizer) if options.logprobs else None
        self._tells_ids = options.token_ids
        self._prompt_token_ids = group.streams[0].prompt_token_ids

    def whole(self, piece: Piece) -> ChatChoice:
        message: AnswerMessage = {"role": "assistant", "content": piece.text, "refusal": None}
        if piece.calls:
            message["content"] = piece.text or None
            message["tool_calls"] = whole_calls(piece.calls)
        logprobs = self._writer.chat(piece.tokens) if self._writer else None
        choice: ChatChoice = {"index": piece.index, "message": message, "logprobs": logprobs, "finish_reason": None}
        write_end(choice, piece, tells_ids=self._tells_ids)
        return choice

    def opening(self, index: int) -> ChatChunkChoice:
        """The role, once."""
        delta: ChatDelta = {"role": "assistant", "content": ""}
        return {"index": index, "delta": delta, "logprobs": None, "finish_reason": None}

    def chunk(self, piece: Piece) -> ChatChunkChoice:
        delta: ChatDelta = {"content": piece.text} if piece.text else {}
        if piece.calls:
            delta["tool_calls"] = [call_delta(call) for call in piece.calls]
        logprobs = self._writer.chat(piece.tokens) if self._writer and piece.tokens else None
        choice: ChatChunkChoice = {"index": piece.index, "delta": delta, "logprobs": logprobs, "finish_reason": None}
        write_end(choice, piece, tells_ids=self._tells_ids)
        return choice

    def extras(self) -> JsonObject:
        return {"prompt_token_ids": list(self._prompt_token_ids)} if self._tells_ids else {}
