"""The plain routes: /generate and /stream take a prompt and a length, and go on with the text greedily."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request, Response

from myserve_ui.api.client_presence import while_connected
from myserve_ui.api.completion_protocol import PlainBody
from myserve_ui.api.generation import collect, text_pieces
from myserve_ui.api.request_intake import RequestIntake
from myserve_ui.api.streamed_reply import StreamedReply
from myserve_ui.api.wire_json import json_response

if TYPE_CHECKING:
    from myserve_ui.serving.chat_service import ChatService


def add_plain_routes(router: APIRouter, service: ChatService, intake: RequestIntake) -> None:
    """Add the two routes over the default model of `service`."""

    @router.post("/generate")
    async def generate(request: Request) -> Response:
        body = await intake.read(request, PlainBody)
        text, last = await while_connected(request.receive, collect(service, body.to_request()))
        usage = last.usage
        return json_response(
            {"text": text, "prompt_tokens": usage.prompt_tokens, "output_tokens": usage.completion_tokens}
        )

    @router.post("/stream")
    async def stream_text(request: Request) -> Response:
        body = await intake.read(request, PlainBody)
        return StreamedReply(partial(service.start_completion, body.to_request()), text_pieces, media_type="text/plain")
