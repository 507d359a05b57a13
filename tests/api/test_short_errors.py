"""An error's body stays under 8 kB and gives no long input back, whatever was sent."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest

from myserve_ui.api.errors import error_reply
from myserve_ui.errors import InvalidRequestError

MOST = 8192
LONG = "k" * 100_000
CHAT = {"model": "llama", "messages": [{"role": "user", "content": "Hi"}]}


def with_key(key: str) -> list[tuple[str, dict[str, Any]]]:
    """Bodies that are refused for what stands under `key`, or for `key` itself."""
    schema = {"type": "object", "properties": {key: {"type": "no such type"}}}
    function = {"name": "f", "parameters": {"type": "object", "properties": {key: {"$ref": "#/nowhere"}}}}
    return [
        ("/v1/chat/completions", {**CHAT, key: "\ud800"}),
        ("/v1/chat/completions", {**CHAT, "logit_bias": {key: 1}}),
        ("/v1/chat/completions", {**CHAT, "metadata": {key: {key: ["\ud800"]}}}),
        ("/v1/chat/completions", {**CHAT, "model": key}),
        ("/v1/chat/completions", {**CHAT, "messages": [{"role": key, "content": "Hi"}]}),
        ("/v1/chat/completions", {**CHAT, "messages": [{"role": "user", "content": [{"type": key}]}]}),
        ("/v1/chat/completions", {**CHAT, "stop": {key: key}}),
        ("/v1/chat/completions", {**CHAT, "tool_choice": {"type": "function", "function": {"name": key}}}),
        (
            "/v1/chat/completions",
            {**CHAT, "response_format": {"type": "json_schema", "json_schema": {"schema": schema}}},
        ),
        (
            "/v1/chat/completions",
            {**CHAT, "tools": [{"type": "function", "function": function}], "tool_choice": "required"},
        ),
        ("/v1/completions", {"model": "llama", "prompt": {key: key}}),
        ("/v1/completions", {"model": "llama", "prompt": "x", "suffix": key}),
        ("/v1/fidelity", {"text": "x", "base": key}),
        ("/v1/compare", {"prompt": "x", "candidate": key, "timing": key}),
    ]


@pytest.mark.parametrize("key", [LONG, "🙂" * 30_000, "two words " * 9000, "\\\"'\n" * 20_000], ids=range(4))
@pytest.mark.parametrize("case", range(len(with_key("k"))))
async def test_an_error_gives_no_long_input_back(client: httpx2.AsyncClient, case: int, key: str) -> None:
    path, body = with_key(key)[case]
    answer = await client.post(path, content=json.dumps(body), headers={"content-type": "application/json"})
    assert answer.status_code in (400, 404), answer.text[:300]
    assert len(answer.content) <= MOST
    assert set(answer.json()["error"]) == {"message", "type", "param", "code"}
    assert key[:500] not in answer.json()["error"]["message"] + (answer.json()["error"]["param"] or "")


def test_our_own_sentences_are_whole() -> None:
    message = "The prompt has 5 tokens. " * 30
    assert error_reply(InvalidRequestError(message, param="prompt"))["error"]["message"] == message
