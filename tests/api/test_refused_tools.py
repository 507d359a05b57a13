"""What is wrong about tools and forms is a 400 that names the place, streamed or not, and the server goes on."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest

CHAT = "/v1/chat/completions"
GOOD: dict[str, Any] = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}]}


def function(name: object = "f", **fields: object) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, **fields}}


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


def schema_format(**fields: object) -> dict[str, Any]:
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "x", **fields}}}


def turn(**call: object) -> dict[str, Any]:
    called = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}, **call}
    return {"messages": [{"role": "assistant", "content": None, "tool_calls": [called]}]}


NAMES: list[object] = ["", "a b", "a.b", "f\n", "x" * 65, "日本", 5, None]
REFUSED: list[tuple[dict[str, Any], str]] = [
    *(({"tools": [function(), function(name)]}, "tools[1].function.name") for name in NAMES),
    ({"tools": [function("f"), function("g"), function("f")]}, "tools[2].function.name"),
    ({"tools": [{"type": "function"}]}, "tools[0].function"),
    ({"tools": [{"function": {"name": "f"}}]}, "tools[0].type"),
    ({"tools": [{"type": "retrieval"}]}, "tools[0].type"),
    ({"tools": [function(parameters=[])]}, "tools[0].function.parameters"),
    ({"tools": [function(parameters={"type": "string"})]}, "tools[0].function.parameters"),
    ({"tools": [function(parameters=nested(400))]}, "tools[0].function.parameters"),
    ({"tools": [function(f"f{n}") for n in range(129)]}, "tools"),
    ({"tools": [function(description="x" * 200_000)]}, "tools"),
    ({"tools": {"f": 1}}, "tools"),
    ({"tool_choice": "required"}, "tool_choice"),
    ({"tools": [], "tool_choice": "required"}, "tool_choice"),
    ({"tools": [function()], "tool_choice": "always"}, "tool_choice"),
    ({"tools": [function()], "tool_choice": 5}, "tool_choice"),
    ({"tools": [function()], "tool_choice": {"type": "allowed_tools"}}, "tool_choice"),
    ({"tools": [function()], "tool_choice": function("g")}, "tool_choice.function.name"),
    ({"tool_choice": function("f")}, "tool_choice"),
    ({"tools": [function()], "parallel_tool_calls": "no"}, "parallel_tool_calls"),
    (turn(id=None), "messages[0].tool_calls[0].id"),
    (turn(function={"name": "f"}), "messages[0].tool_calls[0].function.arguments"),
    (turn(function={"name": "f", "arguments": {}}), "messages[0].tool_calls[0].function.arguments"),
    (turn(function={"name": "f", "arguments": "[]"}), "messages[0].tool_calls[0].function.arguments"),
    (turn(function={"name": "f", "arguments": "{"}), "messages[0].tool_calls[0].function.arguments"),
    (turn(function={"name": "f", "arguments": "[" * 90_000}), "messages[0].tool_calls[0].function.arguments"),
    ({"messages": [{**turn()["messages"][0], "role": "user"}]}, "messages[0].tool_calls"),
    ({"messages": [{"role": "assistant", "content": None}]}, "messages[0].content"),
    ({"messages": [{"role": "assistant", "tool_calls": []}]}, "messages[0].content"),
    ({"messages": [{"role": "tool", "content": "4"}]}, "messages[0].tool_call_id"),
    ({"response_format": {"type": "json_schema"}}, "response_format"),
    ({"response_format": {"type": "xml"}}, "response_format.type"),
    ({"response_format": {}}, "response_format.type"),
    ({"response_format": "json"}, "response_format"),
    ({"response_format": {"type": "text", "json_schema": {"schema": {}}}}, "response_format.json_schema"),
    (schema_format(), "response_format.json_schema.schema"),
    (schema_format(schema=[]), "response_format.json_schema.schema"),
    (schema_format(schema={"not": {}}), "response_format.json_schema.schema"),
    (schema_format(schema=nested(40)), "response_format.json_schema.schema"),
    (schema_format(schema=nested(400)), "response_format.json_schema.schema"),
    (schema_format(schema={"enum": ["x" * 70_000]}), "response_format.json_schema.schema"),
]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("fields", "param"), REFUSED, ids=[json.dumps(fields)[:80] for fields, _ in REFUSED])
async def test_a_wrong_field_is_refused_by_its_path(
    client: httpx2.AsyncClient, fields: dict[str, Any], param: str, stream: bool
) -> None:
    response = await client.post(CHAT, json={**GOOD, **fields, "stream": stream})
    error = response.json()["error"]
    assert (response.status_code, error["type"], error["param"]) == (400, "invalid_request_error", param)
    assert len(response.content) < 2000
    assert (await client.post(CHAT, json=GOOD)).status_code == 200


NEUTRAL: list[dict[str, Any]] = [
    {"tools": None, "tool_choice": None, "parallel_tool_calls": None, "response_format": None},
    {"tools": []},
    {"tool_choice": "none"},
    {"tool_choice": "auto", "parallel_tool_calls": False},
    {"response_format": {"type": "text"}},
    {"messages": [{"role": "user", "content": "hi", "tool_calls": None, "tool_call_id": None}]},
]


@pytest.mark.parametrize("fields", NEUTRAL, ids=map(json.dumps, NEUTRAL))
async def test_what_asks_for_nothing_is_accepted(client: httpx2.AsyncClient, fields: dict[str, Any]) -> None:
    assert (await client.post(CHAT, json={**GOOD, **fields})).status_code == 200
