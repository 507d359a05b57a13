"""The routes that continue a text: /v1/completions, and /generate and /stream, which take a prompt and a length."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request, Response
from starlette.responses import PlainTextResponse

from myserve_ui.api.completions.protocol import CompletionBody, PlainBody, PlainReply, TextChoice, TextCompletion
from myserve_ui.api.logprobs import LogprobWriter, TextLogprobs
from myserve_ui.api.pieces import ENDED_EARLY, AnswerOptions, Piece, failure_of
from myserve_ui.api.render import Generation, Responder, write_end
from myserve_ui.api.responses import JsonObject, StreamedReply, json_response, while_connected, with_cache
from myserve_ui.api.sampling import RequestLimits
from myserve_ui.core.requests import CompletionRequest
from myserve_ui.errors import GenerationFailedError
from myserve_ui.serving.request_stream import StreamGroup

if TYPE_CHECKING:
    from myserve_ui.serving.chat_service import ChatService
    from myserve_ui.serving.request_stream import RequestStream


def add_completion_route(router: APIRouter, service: ChatService, responder: Responder, limits: RequestLimits) -> None:
    """Add /v1/completions over `service`."""

    @router.post("/v1/completions", response_model=TextCompletion)
    async def create_completion(body: CompletionBody, request: Request) -> Response:
        """Go on with one prompt or several, whole or streamed."""
        limits.check(body.num_choices, len(body.prompt))
        asked = [with_cache(one, request) for one in body.to_requests()]
        options = AnswerOptions(
            body.num_choices,
            logprobs=body.logprobs is not None,
            token_ids=bool(body.return_token_ids),
            echo=body.prompt if body.echo else (),
        )
        generation = Generation(
            start=lambda: service.start_completions(asked, body.num_choices),
            shape=TextShape,
            options=options,
            id_prefix="cmpl",
            include_usage=body.include_usage,
        )
        return await responder.respond(request, generation, stream=bool(body.stream))


def add_plain_routes(router: APIRouter, service: ChatService) -> None:
    """Add /generate and /stream over the default model of `service`; both go on greedily."""

    @router.post("/generate", response_model=PlainReply)
    async def generate(body: PlainBody, request: Request) -> Response:
        """Go on with a text greedily, by the default model."""
        return json_response(await while_connected(request.receive, _collect(service, body.to_request())))

    @router.post("/stream", response_class=PlainTextResponse)
    async def stream_text(body: PlainBody) -> Response:
        """The same, as plain text while it comes."""
        return StreamedReply(partial(service.start_completion, body.to_request()), _text_of, media_type="text/plain")


async def _collect(service: ChatService, request: CompletionRequest) -> PlainReply:
    pieces = []
    async with await service.start_completion(request) as stream:
        async for output in stream:
            pieces.append(output.text_delta)
            if failure := failure_of(output):
                raise failure
            if output.finish_reason is not None:
                prompt_tokens, output_tokens = output.usage.prompt_tokens, output.usage.completion_tokens
                return {"text": "".join(pieces), "prompt_tokens": prompt_tokens, "output_tokens": output_tokens}
    raise GenerationFailedError(ENDED_EARLY)


async def _text_of(stream: RequestStream) -> AsyncIterator[bytes]:
    async for output in stream:
        if failure := failure_of(output):
            raise failure
        if output.text_delta:
            yield output.text_delta.encode()


class TextShape:
    """text_completion, whole and in chunks. Prompt ids stand in the choices, since each may have its own prompt."""

    whole_name = chunk_name = "text_completion"

    def __init__(self, group: StreamGroup, options: AnswerOptions) -> None:
        self._writer = LogprobWriter(group.streams[0].tokenizer) if options.logprobs else None
        self._tells_ids = options.token_ids
        self._prompts = [stream.prompt_token_ids for stream in group.streams]

    def whole(self, piece: Piece) -> TextChoice:
        choice = self._choice(piece, self._writer.text(piece.tokens) if self._writer else None)
        return self._with_prompt(choice) if self._tells_ids else choice

    def opening(self, index: int) -> TextChoice | None:
        """Only prompt ids that were asked for come before any piece."""
        return self._with_prompt(self.chunk(Piece(index))) if self._tells_ids else None

    def chunk(self, piece: Piece) -> TextChoice:
        return self._choice(piece, self._writer.text(piece.tokens) if self._writer and piece.tokens else None)

    def extras(self) -> JsonObject:
        return {}

    def _choice(self, piece: Piece, logprobs: TextLogprobs | None) -> TextChoice:
        choice: TextChoice = {"index": piece.index, "text": piece.text, "logprobs": logprobs, "finish_reason": None}
        write_end(choice, piece, tells_ids=self._tells_ids)
        return choice

    def _with_prompt(self, choice: TextChoice) -> TextChoice:
        choice["prompt_token_ids"] = list(self._prompts[choice["index"]])
        return choice
