"""What the routes take, as an OpenAPI document made of the models that check it."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from myserve_ui.api.completion_protocol import CompletionBody, PlainBody
from myserve_ui.api.protocol import ChatCompletionBody
from myserve_ui.api.token_protocol import DetokenizeBody, TokenizeBody

BODIES: dict[str, type[BaseModel]] = {
    "/v1/chat/completions": ChatCompletionBody,
    "/v1/completions": CompletionBody,
    "/generate": PlainBody,
    "/stream": PlainBody,
    "/tokenize": TokenizeBody,
    "/detokenize": DetokenizeBody,
}
NULL = {"type": "null"}
NARROWED: dict[str, dict[str, Any]] = {
    "model": {"const": "echo"},
    "role": {"enum": ["system", "user", "assistant"]},
    "content": {"type": "string"},
    "tokens": {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 257}},
    "temperature": {"type": "number", "minimum": 0, "maximum": 2},
    "top_p": {"type": "number", "minimum": 0, "maximum": 1},
    "min_p": {"type": "number", "minimum": 0, "maximum": 1},
    "top_k": {"type": "integer", "minimum": -1},
    "presence_penalty": {"type": "number", "minimum": -2, "maximum": 2},
    "frequency_penalty": {"type": "number", "minimum": -2, "maximum": 2},
    "repetition_penalty": {"type": "number", "exclusiveMinimum": 0, "maximum": 10},
    "logit_bias": {"type": "object", "maxProperties": 3, "propertyNames": {"pattern": "^(0|[1-9][0-9]?)$"}},
    "seed": {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1},
    "n": {"type": "integer", "minimum": 1, "maximum": 3},
    "max_tokens": {"type": "integer", "minimum": 1, "maximum": 9},
    "max_completion_tokens": NULL,
    "max_new_tokens": {"type": "integer", "minimum": 1, "maximum": 9},
    "min_tokens": {"type": "integer", "minimum": 0, "maximum": 1},
    "top_logprobs": NULL,
    "stop": {"type": "array", "items": {"type": "string", "minLength": 1}, "maxItems": 4},
    "stop_token_ids": {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 257}, "maxItems": 3},
    "stream_options": NULL,
    "continue_final_message": NULL,
    "messages": {"type": "array", "items": {"$ref": "#/components/schemas/ChatMessage"}, "minItems": 1, "maxItems": 3},
}
"""What the models check in code and no schema says, or what makes most requests wrong; to get far into the server."""
BARE = ("name", "tool_calls", "tool_call_id", "function_call", "audio", "tools", "tool_choice", "response_format")

TEMPLATE = "#/components/schemas/{model}"


def openapi_document(*, narrow: bool) -> dict[str, Any]:
    """The document; `narrow` leaves only what a well-behaved client of the echo sends."""
    models = [(model, "validation") for model in dict.fromkeys(BODIES.values())]
    schemas = models_json_schema(models, ref_template=TEMPLATE)[1]["$defs"]
    for properties in (schema.get("properties", {}) for schema in schemas.values() if narrow):
        properties.update({name: schema for name, schema in NARROWED.items() if name in properties})
        for name in BARE:
            properties.pop(name, None)
    posts = {path: {"post": _post(model.__name__)} for path, model in BODIES.items()}
    named = {"in": "path", "name": "id", "required": True, "schema": {"type": "string", "minLength": 1}}
    gets = {path: {"get": _answers()} for path in ("/v1/models", "/health", "/live", "/metrics")}
    gets["/v1/models/{id}"] = {"get": {**_answers(), "parameters": [named]}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "myserve-ui", "version": "1"},
        "paths": {**posts, **gets},
        "components": {"schemas": schemas},
    }


def _post(model: str) -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": TEMPLATE.format(model=model)}}}
    return {"requestBody": {"required": True, "content": content}, **_answers()}


def _answers() -> dict[str, Any]:
    return {"responses": {"200": {"description": "an answer"}, "default": {"description": "an error"}}}
