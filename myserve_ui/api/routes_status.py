"""The routes that only tell: which models there are, whether the service is ready, whether the process lives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter, Response

from myserve_ui.api.error_replies import error_headers, error_payload
from myserve_ui.api.wire_json import JsonObject, json_response
from myserve_ui.core.model_info import LoadState, ModelInfo, ServiceStatus
from myserve_ui.errors import ModelNotFoundError, UnavailableError

if TYPE_CHECKING:
    from myserve_ui.serving.chat_service import ChatService

OWNER = "myserve-ui"
PROBE_METHODS = ["GET", "HEAD"]


def add_status_routes(router: APIRouter, service: ChatService) -> None:
    """Add /v1/models, /health, /healthz and /live over `service`."""

    @router.get("/v1/models")
    async def list_models() -> Response:
        return json_response({"object": "list", "data": [model_json(model) for model in service.models()]})

    @router.get("/v1/models/{model_id:path}")
    async def get_model(model_id: str) -> Response:
        if not model_id:
            raise ModelNotFoundError("The path names no model; GET /v1/models lists them.", param="model")
        return json_response(model_json(service.model(model_id)))

    @router.api_route("/health", methods=PROBE_METHODS)
    @router.api_route("/healthz", methods=PROBE_METHODS)
    async def health() -> Response:
        return health_response(service.status())

    @router.api_route("/live", methods=PROBE_METHODS)
    async def live() -> Response:
        return json_response({"status": "ok"})


def model_json(model: ModelInfo) -> JsonObject:
    """One model in OpenAI's shape, with what is known of it beside."""
    return {
        "id": model.id,
        "object": "model",
        "created": model.created,
        "owned_by": OWNER,
        "name": model.name,
        "precision": model.precision,
        "state": model.state,
        "loaded": model.state is LoadState.READY,
        "reason": model.reason,
        "dtype": model.dtype,
        "device": model.device,
        "context_length": model.context_length,
        "num_parameters": model.num_parameters,
        "weight_bytes": model.weight_bytes,
        "bits_per_parameter": model.bits_per_parameter,
        "kv_bytes_per_token": model.kv_bytes_per_token,
        "bytes_per_step": model.bytes_per_step,
        "has_chat_template": model.has_chat_template,
        "takes_tools": model.takes_tools,
        "note": model.note,
    }


def health_response(status: ServiceStatus) -> Response:
    """200 when `status` is ready; else 503, why, and when to ask again."""
    facts = {
        "model": status.default_model,
        "version": status.version,
        "uptime_seconds": round(status.uptime_seconds, 3),
        "running": sum(engine.num_running for engine in status.engines),
        "waiting": sum(engine.num_waiting for engine in status.engines),
    }
    if status.ready:
        return json_response({"status": "ok", **facts})
    error = UnavailableError(status.reason or "The service is not ready.")
    error.code = status.code
    payload = {"status": status.code or "unavailable", **facts, **error_payload(error)}
    return json_response(payload, status=error.status, headers=error_headers(error))
