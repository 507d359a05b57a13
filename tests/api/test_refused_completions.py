"""Text completions' own fields, and the limits that settings draw: refused by name with the bound."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI

from tests.api.scripted_service import ScriptedService

GOOD = {"model": "tiny", "prompt": "Hi"}
PATH = "/v1/completions"

REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"logprobs": 6}, "logprobs"),
    ({"logprobs": -1}, "logprobs"),
    ({"logprobs": True}, "logprobs"),
    ({"top_logprobs": 1}, "top_logprobs"),
    ({"max_tokens": 0}, "max_tokens"),
    ({"max_tokens": -1, "echo": True}, "max_tokens"),
    ({"echo": 1}, "echo"),
    ({"suffix": "x"}, "suffix"),
    ({"best_of": 2}, "best_of"),
    ({"n": 17}, "n"),
    ({"response_format": {"type": "banana"}}, "response_format.type"),
]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("fields", "param"), REFUSED, ids=[json.dumps(fields) for fields, _ in REFUSED])
async def test_a_wrong_field_of_a_text_completion_is_refused_by_name(
    client: httpx2.AsyncClient, fields: dict[str, Any], param: str, stream: bool
) -> None:
    response = await client.post(PATH, json={**GOOD, **fields, "stream": stream})
    assert response.status_code == 400
    assert response.json()["error"]["param"] == param
    assert (await client.post(PATH, json=GOOD)).status_code == 200


BIASES: list[tuple[Any, str]] = [
    ({"x": 1}, "'x'"),
    ({"": 1}, "''"),
    ({"1.5": 1}, "'1.5'"),
    ({"-1": 1}, "'-1'"),
    ({"05": 1}, "'05'"),
    ({"٣": 1}, "'٣'"),
    ({"9" * 40: 1}, "'99999"),
    ({"7": 101}, "'7'"),
    ({"7": -100.5}, "'7'"),
    ({"7": "a"}, "'7'"),
    ({"7": None}, "'7'"),
    ({"7": True}, "'7'"),
    ({str(token_id): 1 for token_id in range(1025)}, "1024"),
    ("a", "'a'"),
    ([[1, 2]], "an array"),
]


@pytest.mark.parametrize("path", ["/v1/chat/completions", PATH])
@pytest.mark.parametrize(("bias", "words"), BIASES, ids=[words for _, words in BIASES])
async def test_a_wrong_bias_is_refused_with_its_key(
    client: httpx2.AsyncClient, path: str, bias: Any, words: str
) -> None:
    body = {**GOOD, "messages": [{"role": "user", "content": "Hi"}]}
    response = await client.post(path, json={**body, "logit_bias": bias})
    assert response.status_code == 400
    assert response.json()["error"]["param"] == "logit_bias"
    assert words in response.json()["error"]["message"]
    assert (await client.post(path, json={**body, "logit_bias": {"7": -100, "0": 100.0}})).status_code == 200


async def test_top_logprobs_need_logprobs(client: httpx2.AsyncClient) -> None:
    body = {"model": "tiny", "messages": [{"role": "user", "content": "Hi"}], "top_logprobs": 5}
    for fields in ({}, {"logprobs": False}, {"logprobs": None}):
        response = await client.post("/v1/chat/completions", json={**body, **fields})
        assert (response.status_code, response.json()["error"]["param"]) == (400, "top_logprobs")
    assert (await client.post("/v1/chat/completions", json={**body, "logprobs": True})).status_code == 200


async def test_the_operator_draws_the_limits_and_the_error_tells_them(
    app_factory: Callable[..., FastAPI], service: ScriptedService
) -> None:
    transport = httpx2.ASGITransport(app_factory(max_choices=2, max_prompts=3))
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        for fields, param, bound in (({"n": 3}, "n", "2"), ({"prompt": ["a"] * 4}, "prompt", "3")):
            error = (await client.post(PATH, json={**GOOD, **fields})).json()["error"]
            assert (error["param"], bound in error["message"]) == (param, True)
        answer = (await client.post(PATH, json={**GOOD, "prompt": ["a"] * 3, "n": 2})).json()
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2, 3, 4, 5]
    assert service.open_streams == 0
