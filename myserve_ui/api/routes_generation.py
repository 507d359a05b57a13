"""The OpenAI routes that generate: /v1/chat/completions and /v1/completions, whole or streamed."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, TypeVar

from fastapi import APIRouter, Request, Response

from myserve_ui.api.chunk_events import chat_events, text_events
from myserve_ui.api.client_presence import while_connected
from myserve_ui.api.completion_protocol import CompletionBody
from myserve_ui.api.generation import collect
from myserve_ui.api.protocol import ChatCompletionBody
from myserve_ui.api.replies import chat_completion, new_frame, text_completion
from myserve_ui.api.request_intake import RequestIntake
from myserve_ui.api.sse import thin_keep_alives
from myserve_ui.api.streamed_reply import Pieces, Start, StreamedReply
from myserve_ui.api.wire_json import json_response

if TYPE_CHECKING:
    from myserve_ui.serving.chat_service import ChatService
    from myserve_ui.serving.request_stream import RequestStream

Asked = TypeVar("Asked")
CHAT_PREFIX, TEXT_PREFIX = "chatcmpl", "cmpl"


def add_generation_routes(router: APIRouter, service: ChatService, intake: RequestIntake) -> None:
    """Add the two routes over `service`."""

    @router.post("/v1/chat/completions")
    async def create_chat_completion(request: Request) -> Response:
        body = await intake.read(request, ChatCompletionBody)
        created = time.time()

        def events(stream: RequestStream) -> AsyncIterator[bytes]:
            return chat_events(stream, new_frame(CHAT_PREFIX, stream.model, created), include_usage=body.include_usage)

        if body.stream:
            return event_reply(service.start_chat, body.to_request(), events)
        model, text, last = await while_connected(request.receive, collect(service.start_chat, body.to_request()))
        return json_response(chat_completion(new_frame(CHAT_PREFIX, model, created), text, last))

    @router.post("/v1/completions")
    async def create_completion(request: Request) -> Response:
        body = await intake.read(request, CompletionBody)
        created = time.time()

        def events(stream: RequestStream) -> AsyncIterator[bytes]:
            return text_events(stream, new_frame(TEXT_PREFIX, stream.model, created), include_usage=body.include_usage)

        if body.stream:
            return event_reply(service.start_completion, body.to_request(), events)
        model, text, last = await while_connected(request.receive, collect(service.start_completion, body.to_request()))
        return json_response(text_completion(new_frame(TEXT_PREFIX, model, created), text, last))


def event_reply(start: Start[Asked], asked: Asked, events: Pieces) -> StreamedReply[Asked]:
    """The answer to `asked` as server-sent events, kept alive while it is silent."""

    def pieces(stream: RequestStream) -> AsyncIterator[bytes]:
        return thin_keep_alives(events(stream), clock=time.monotonic)

    return StreamedReply(start, asked, pieces, media_type="text/event-stream")
