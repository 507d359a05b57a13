"""/tokenize and /detokenize: what a text, or a chat, is to a model, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter, Request, Response

from myserve_ui.api.client_presence import while_connected
from myserve_ui.api.request_intake import RequestIntake
from myserve_ui.api.token_protocol import DetokenizeBody, TokenizeBody
from myserve_ui.api.wire_json import json_response

if TYPE_CHECKING:
    from myserve_ui.serving.chat_service import ChatService


def add_token_routes(router: APIRouter, service: ChatService, intake: RequestIntake) -> None:
    """Add the two routes over `service`."""

    @router.post("/tokenize")
    async def tokenize(request: Request) -> Response:
        body = await intake.read(request, TokenizeBody)
        working = service.tokenize(body.to_request(), add_special_tokens=body.add_special is not False)
        token_ids = await while_connected(request.receive, working)
        return json_response({"tokens": token_ids, "count": len(token_ids)})

    @router.post("/detokenize")
    async def detokenize(request: Request) -> Response:
        body = await intake.read(request, DetokenizeBody)
        text = await while_connected(request.receive, service.detokenize(body.tokens, body.model or ""))
        return json_response({"content": text})
