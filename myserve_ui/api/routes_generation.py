"""The OpenAI routes that generate: /v1/chat/completions and /v1/completions, whole or streamed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request, Response

from myserve_ui.api.chunk_events import CHAT_CHUNKS, TEXT_CHUNKS, ChunkEvents, ChunkShape
from myserve_ui.api.client_presence import while_connected
from myserve_ui.api.completion_protocol import CompletionBody
from myserve_ui.api.generation import collect
from myserve_ui.api.protocol import ChatCompletionBody, SamplingFields
from myserve_ui.api.replies import ReplyFrame, chat_completion, new_frame, text_completion
from myserve_ui.api.request_intake import RequestIntake
from myserve_ui.api.sse import thin_keep_alives
from myserve_ui.api.streamed_reply import StreamedReply
from myserve_ui.api.wire_json import json_response

if TYPE_CHECKING:
    from myserve_ui.serving.chat_service import ChatService
    from myserve_ui.serving.request_stream import RequestStream

CHAT_PREFIX, TEXT_PREFIX = "chatcmpl", "cmpl"


def add_generation_routes(router: APIRouter, service: ChatService, intake: RequestIntake) -> None:
    """Add the two routes over `service`."""

    @router.post("/v1/chat/completions")
    async def create_chat_completion(request: Request) -> Response:
        body = await intake.read(request, ChatCompletionBody)
        created = time.time()
        if body.stream:
            stream = await while_connected(request.receive, service.start_chat(body.to_request()))
            return stream_reply(stream, new_frame(CHAT_PREFIX, stream.model, created), CHAT_CHUNKS, body)
        model, text, last = await while_connected(request.receive, collect(service.start_chat, body.to_request()))
        return json_response(chat_completion(new_frame(CHAT_PREFIX, model, created), text, last))

    @router.post("/v1/completions")
    async def create_completion(request: Request) -> Response:
        body = await intake.read(request, CompletionBody)
        created = time.time()
        if body.stream:
            stream = await while_connected(request.receive, service.start_completion(body.to_request()))
            return stream_reply(stream, new_frame(TEXT_PREFIX, stream.model, created), TEXT_CHUNKS, body)
        model, text, last = await while_connected(request.receive, collect(service.start_completion, body.to_request()))
        return json_response(text_completion(new_frame(TEXT_PREFIX, model, created), text, last))


def stream_reply(stream: RequestStream, frame: ReplyFrame, shape: ChunkShape, body: SamplingFields) -> StreamedReply:
    """`stream` as server-sent events."""
    events = ChunkEvents(frame, shape, include_usage=body.include_usage).follow(stream)
    return StreamedReply(stream, thin_keep_alives(events, clock=time.monotonic), media_type="text/event-stream")
