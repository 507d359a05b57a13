"""The OpenAI routes that generate: /v1/chat/completions and /v1/completions, whole or streamed."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from fastapi import APIRouter, Request, Response

from myserve_ui.api.answer_reader import AnswerReader, AnswerWishes
from myserve_ui.api.answer_shapes import AnswerShape, ChatShape, TextShape
from myserve_ui.api.cache_headers import cache_header, with_cache
from myserve_ui.api.chunk_events import ChunkEvents
from myserve_ui.api.client_presence import while_connected
from myserve_ui.api.completion_protocol import CompletionBody
from myserve_ui.api.protocol import ChatCompletionBody
from myserve_ui.api.replies import FrameMaker, usage_json
from myserve_ui.api.request_intake import RequestIntake
from myserve_ui.api.sse import thin_keep_alives
from myserve_ui.api.streamed_reply import StreamedReply
from myserve_ui.api.wire_json import json_response
from myserve_ui.serving.stream_group import StreamGroup

if TYPE_CHECKING:
    from myserve_ui.serving.chat_service import ChatService
    from myserve_ui.serving.request_stream import RequestStream


Start: TypeAlias = "Callable[[], Awaitable[list[RequestStream]]]"


@dataclass(frozen=True, slots=True)
class _Asked:
    """One request that was understood."""

    start: Start
    shape: Callable[[StreamGroup, AnswerWishes], AnswerShape]
    wishes: AnswerWishes
    id_prefix: str
    include_usage: bool


class _Answering:
    """Answers what was asked, with the frames of this server."""

    def __init__(self, frames: FrameMaker) -> None:
        self._frames = frames

    async def answer(self, request: Request, asked: _Asked, *, stream: bool) -> Response:
        created = time.time()

        async def start() -> StreamGroup:
            return StreamGroup(await asked.start())

        def events(group: StreamGroup) -> AsyncIterator[bytes]:
            frame = self._frames.new_frame(asked.id_prefix, group.model, created)
            chunks = ChunkEvents(frame, asked.shape(group, asked.wishes), include_usage=asked.include_usage)
            return thin_keep_alives(chunks.follow(AnswerReader(group, asked.wishes)), clock=time.monotonic)

        if stream:
            return StreamedReply(start, events, media_type="text/event-stream", headers=cache_header)
        return await while_connected(request.receive, self._whole(start, asked, created))

    async def _whole(self, start: Callable[[], Awaitable[StreamGroup]], asked: _Asked, created: float) -> Response:
        async with await start() as group:
            frame = self._frames.new_frame(asked.id_prefix, group.model, created)
            shape, reader = asked.shape(group, asked.wishes), AnswerReader(group, asked.wishes)
            choices = [shape.whole(piece) for piece in await reader.whole()]
            usage = usage_json(reader.usage)
            payload = {**frame.as_json(shape.whole_name), "choices": choices, "usage": usage, **shape.extras()}
            return json_response(payload, headers=cache_header(group))


def add_generation_routes(router: APIRouter, service: ChatService, intake: RequestIntake, frames: FrameMaker) -> None:
    """Add the two routes over `service`."""
    answering = _Answering(frames)

    @router.post("/v1/chat/completions")
    async def create_chat_completion(request: Request) -> Response:
        body = await intake.read(request, ChatCompletionBody)
        asked = _Asked(
            _chat_start(service, body, request), ChatShape, _chat_wishes(body), "chatcmpl", body.include_usage
        )
        return await answering.answer(request, asked, stream=bool(body.stream))

    @router.post("/v1/completions")
    async def create_completion(request: Request) -> Response:
        body = await intake.read(request, CompletionBody)
        asked = _Asked(_text_start(service, body, request), TextShape, _text_wishes(body), "cmpl", body.include_usage)
        return await answering.answer(request, asked, stream=bool(body.stream))


def _chat_start(service: ChatService, body: ChatCompletionBody, request: Request) -> Start:
    asked = with_cache(body.to_request(), request)
    return lambda: service.start_chat_choices(asked, body.num_choices)


def _text_start(service: ChatService, body: CompletionBody, request: Request) -> Start:
    asked = [with_cache(one, request) for one in body.to_requests()]
    return lambda: service.start_completions(asked, body.num_choices)


def _chat_wishes(body: ChatCompletionBody) -> AnswerWishes:
    return AnswerWishes(body.num_choices, logprobs=bool(body.logprobs), token_ids=bool(body.return_token_ids))


def _text_wishes(body: CompletionBody) -> AnswerWishes:
    return AnswerWishes(
        body.num_choices,
        logprobs=body.logprobs is not None,
        token_ids=bool(body.return_token_ids),
        echo=body.prompt if body.echo else (),
    )
