"""/v1/compare and /v1/fidelity: what a cheaper precision changes, as one JSON document each."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from fastapi import APIRouter, Request, Response

from myserve_ui.api.client_presence import while_connected
from myserve_ui.api.evaluation_protocol import CompareBody, FidelityBody
from myserve_ui.api.request_intake import RequestIntake
from myserve_ui.api.wire_json import json_response
from myserve_ui.errors import GenerationFailedError
from myserve_ui.evaluation.comparisons import Comparisons, ComparisonStep
from myserve_ui.evaluation.fidelity import FidelityProgress


def add_evaluation_routes(router: APIRouter, comparisons: Comparisons, intake: RequestIntake) -> None:
    """Add the two routes. Both load what is not loaded; a client that leaves ends the work."""

    @router.post("/v1/compare")
    async def compare(request: Request) -> Response:
        body = await intake.read(request, CompareBody)
        steps = comparisons.compare(body.to_request(), evidence=body.evidence is not False)
        return json_response(await while_connected(request.receive, _document(steps)))

    @router.post("/v1/fidelity")
    async def fidelity(request: Request) -> Response:
        body = await intake.read(request, FidelityBody)
        document = await while_connected(request.receive, _document(comparisons.report(body.to_request())))
        return json_response({**document, "tokens": document["tokens"] if body.tokens is not False else []})


async def _document(steps: AsyncGenerator[ComparisonStep | FidelityProgress, None]) -> dict[str, Any]:
    """What the last of `steps` carries; they are closed whatever happens."""
    async with aclosing(steps):
        async for step in steps:
            if step.document is not None:
                return step.document
    raise GenerationFailedError("The measurement ended early. Ask again.")
