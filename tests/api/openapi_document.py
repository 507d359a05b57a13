"""/openapi.json as a client reads it: what it lets one send, and whether an answer is as it says."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import httpx2
import jsonschema_rs

Json = dict[str, Any]

FUZZED = ("/v1/chat/completions", "/v1/completions", "/generate", "/stream", "/tokenize", "/detokenize")
NULL = {"type": "null"}
NARROWED: dict[str, Json] = {
    "model": {"const": "echo"},
    "role": {"enum": ["system", "user", "assistant"]},
    "content": {"type": "string"},
    "tokens": {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 257}},
    "repetition_penalty": {"type": "number", "exclusiveMinimum": 0, "maximum": 10},
    "logit_bias": {"type": "object", "maxProperties": 3, "propertyNames": {"pattern": "^(0|[1-9][0-9]?)$"}},
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
BODIES = ("ChatCompletionBody", "CompletionBody", "PlainBody", "TokenizeBody", "DetokenizeBody", "ChatMessage")


def narrowed(document: Json) -> Json:
    """`document` with only what a well-behaved client of the echo sends."""
    document = copy.deepcopy(document)
    for name in BODIES:
        properties = document["components"]["schemas"][name]["properties"]
        properties.update({name: schema for name, schema in NARROWED.items() if name in properties})
        for bare in BARE:
            properties.pop(bare, None)
    return document


class AnswerCheck:
    """Holds answers to a document; a key of an answer that the document does not name is an error too."""

    def __init__(self, document: Json) -> None:
        self._document = copy.deepcopy(document)
        for schema in self._document["components"]["schemas"].values():
            if "properties" in schema:
                schema.setdefault("additionalProperties", False)

    def check(self, path: str, response: httpx2.Response) -> None:
        """`path` as the document has it. Raises ValidationError, KeyError for what the document does not know."""
        method = response.request.method.lower()
        answers = self._document["paths"][path][method]["responses"]
        content = answers.get(str(response.status_code), answers["default"])["content"]
        schema = content[response.headers["content-type"].partition(";")[0]]["schema"]
        if response.headers["content-type"].startswith("application/json"):
            self._validate(schema, response.json())
        for event in self._events(schema, response.text):
            failed = "error" in event
            self._validate({"$ref": "#/components/schemas/ErrorReply"} if failed else schema["contentSchema"], event)

    def _events(self, schema: Json, text: str) -> Iterator[Json]:
        lines = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
        if "contentSchema" in schema:
            assert lines
            yield from (json.loads(line) for line in lines if line != "[DONE]")

    def _validate(self, schema: Json, value: object) -> None:
        whole = {**schema, "components": self._document["components"]}
        jsonschema_rs.Draft202012Validator(whole).validate(value)
