"""/openapi.json: what the routes take and answer, made of the models that check and write it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType

from fastapi import APIRouter, Request, Response
from fastapi.openapi.utils import get_openapi
from pydantic import TypeAdapter
from starlette.routing import BaseRoute

from myserve_ui import __version__
from myserve_ui.api.chat.protocol import ChatCompletionChunk
from myserve_ui.api.completions.protocol import TextCompletionChunk
from myserve_ui.api.errors import ErrorReply
from myserve_ui.api.middleware import OPEN_PATHS
from myserve_ui.api.responses import JsonObject, json_response

CHUNKS: Mapping[str, type] = MappingProxyType(
    {"/v1/chat/completions": ChatCompletionChunk, "/v1/completions": TextCompletionChunk}
)
"""Path -> what an event of a streamed answer holds."""
EVENTS = "With `stream`: events of one `data:` line, each with a chunk or, as the last, an error; the end is `[DONE]`."
REFUSED = "Refused, or failed."
REFERENCE = "#/components/schemas/{model}"
KEY = "ApiKey"


def add_document_route(router: APIRouter, *, needs_key: bool) -> None:
    """Add the route over all that `router` has by now. The document is made when somebody asks for it first."""
    routes = tuple(router.routes)

    @cache
    def document() -> JsonObject:
        return build_document(routes, needs_key=needs_key)

    @router.get("/openapi.json", include_in_schema=False)
    async def openapi(request: Request) -> Response:
        prefix = str(request.scope.get("root_path", ""))
        return json_response({**document(), "servers": [{"url": prefix}]} if prefix else document())


def build_document(routes: Sequence[BaseRoute], *, needs_key: bool) -> JsonObject:
    """What FastAPI says of `routes`, and what it cannot know: errors and keys, which are middleware's, and events."""
    document = get_openapi(title="myserve-ui", version=__version__, routes=routes)
    paths, components = document["paths"], document["components"]
    for model in (ErrorReply, *CHUNKS.values()):
        schema = TypeAdapter(model).json_schema(ref_template=REFERENCE)
        components["schemas"] |= {**schema.pop("$defs"), model.__name__: schema}
    for operation in (operation for path in paths.values() for operation in path.values()):
        operation["responses"]["default"]["content"] = {"application/json": {"schema": _reference(ErrorReply)}}
    for path, chunk in CHUNKS.items():
        events = {"type": "string", "description": EVENTS, "contentSchema": _reference(chunk)}
        paths[path]["post"]["responses"]["200"]["content"]["text/event-stream"] = {"schema": events}
    if needs_key:
        components["securitySchemes"] = {KEY: {"type": "http", "scheme": "bearer"}}
        document["security"] = [{KEY: []}]
        for path in OPEN_PATHS:
            paths[path]["get"]["security"] = []
    return document


def _reference(model: type) -> dict[str, str]:
    return {"$ref": REFERENCE.format(model=model.__name__)}
