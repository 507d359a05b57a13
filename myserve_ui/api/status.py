"""The routes that only tell: which models there are, whether the service is ready, whether the process lives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NotRequired

from fastapi import APIRouter, Response
from typing_extensions import TypedDict

from myserve_ui.api.errors import ErrorDetail, error_headers, error_reply
from myserve_ui.api.responses import json_response
from myserve_ui.core.model_info import LoadState, ModelInfo, ServiceStatus
from myserve_ui.errors import ModelNotFoundError, UnavailableError

if TYPE_CHECKING:
    from myserve_ui.serving.chat_service import ChatService

OWNER = "myserve-ui"


class ModelReply(TypedDict):
    """A model in OpenAI's shape, with what is known of it beside."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    name: str
    precision: str
    state: str
    loaded: bool
    reason: str | None
    dtype: str | None
    device: str | None
    context_length: int | None
    num_parameters: int | None
    weight_bytes: int | None
    bits_per_parameter: float | None
    kv_bytes_per_token: int | None
    bytes_per_step: int | None
    has_chat_template: bool | None
    takes_tools: bool | None
    note: str | None


class ModelList(TypedDict):
    object: Literal["list"]
    data: list[ModelReply]


class HealthReply(TypedDict):
    status: str
    """"ok", or the code of the reason why not."""
    model: str
    version: str
    uptime_seconds: float
    running: int
    waiting: int
    error: NotRequired[ErrorDetail]


class LiveReply(TypedDict):
    status: Literal["ok"]


def add_status_routes(router: APIRouter, service: ChatService) -> None:
    """Add /v1/models, /health, /healthz and /live over `service`."""

    @router.get("/v1/models", response_model=ModelList)
    async def list_models() -> Response:
        """Every model and precision that can be asked for."""
        models: ModelList = {"object": "list", "data": [model_json(model) for model in service.models()]}
        return json_response(models)

    @router.get("/v1/models/{model_id:path}", response_model=ModelReply)
    async def get_model(model_id: str) -> Response:
        """One of them."""
        if not model_id:
            raise ModelNotFoundError("The path names no model; GET /v1/models lists them.", param="model")
        return json_response(model_json(service.model(model_id)))

    async def health() -> Response:
        """Whether requests are served now; 503 says why not."""
        return health_response(service.status())

    async def live() -> Response:
        """200 as soon as the process answers."""
        reply: LiveReply = {"status": "ok"}
        return json_response(reply)

    not_ready = {"model": HealthReply, "description": "Not ready: loading, draining, or broken."}
    for path in ("/health", "/healthz"):
        router.get(path, name=path[1:], response_model=HealthReply, responses={503: not_ready})(health)
        router.head(path, include_in_schema=False)(health)
    router.get("/live", response_model=LiveReply)(live)
    router.head("/live", include_in_schema=False)(live)


def model_json(model: ModelInfo) -> ModelReply:
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
    reply: HealthReply = {
        "status": "ok",
        "model": status.default_model,
        "version": status.version,
        "uptime_seconds": round(status.uptime_seconds, 3),
        "running": sum(engine.num_running for engine in status.engines),
        "waiting": sum(engine.num_waiting for engine in status.engines),
    }
    if status.ready:
        return json_response(reply)
    error = UnavailableError(status.reason or "The service is not ready.")
    error.code = status.code
    reply["status"] = status.code or "unavailable"
    return json_response({**reply, **error_reply(error)}, status=error.status, headers=error_headers(error))
