"""/tokenize and /detokenize: the ids that the other routes use, and back."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest

from tests.api.real_door import CHAT, TEXT, RealDoor, user
from tests.api.scripted_service import Script, ScriptedService

pytestmark = pytest.mark.asyncio(loop_scope="module")
BOS = 256


@pytest.mark.parametrize("text", ["", "Hello", " 日本 🙂\n", "\x00\uffff", "<|im_end|>"])
async def test_text_survives_the_way_to_ids_and_back(door: RealDoor, text: str) -> None:
    there = await door.ask("/tokenize", model="llama", content=text, add_special=False)
    assert there["count"] == len(there["tokens"]) == len(text.encode())
    assert await door.ask("/detokenize", model="llama", tokens=there["tokens"]) == {"content": text}


async def test_special_tokens_are_added_unless_told_otherwise(door: RealDoor) -> None:
    for fields, expected in (({}, [BOS, 97]), ({"add_special": True}, [BOS, 97]), ({"add_special": False}, [97])):
        assert (await door.ask("/tokenize", content="a", **fields))["tokens"] == expected


async def test_a_chat_has_the_ids_that_the_chat_route_computes(door: RealDoor) -> None:
    messages = [{"role": "developer", "content": "Be kind"}, *user("日本")]
    there = await door.ask("/tokenize", model="llama", messages=messages)
    answer = await door.ask(CHAT, model="llama", messages=messages, max_tokens=1, return_token_ids=True)
    assert there["tokens"] == answer["prompt_token_ids"]
    assert there["count"] == answer["usage"]["prompt_tokens"]


async def test_ids_of_a_text_are_those_of_a_completion(door: RealDoor) -> None:
    there = await door.ask("/tokenize", model="llama", content="One, two,")
    answer = await door.ask(TEXT, model="llama", prompt="One, two,", max_tokens=1, return_token_ids=True)
    assert there["tokens"] == answer["choices"][0]["prompt_token_ids"]


REFUSED: list[tuple[str, dict[str, Any], int, str | None]] = [
    ("/tokenize", {}, 400, None),
    ("/tokenize", {"content": "a", "messages": user("a")}, 400, None),
    ("/tokenize", {"content": 5}, 400, "content"),
    ("/tokenize", {"content": "cut \ud83d"}, 400, "content"),
    ("/tokenize", {"messages": []}, 400, "messages"),
    ("/tokenize", {"messages": [{"role": "user", "content": None}]}, 400, "messages[0].content"),
    ("/tokenize", {"content": "a", "add_special": 1}, 400, "add_special"),
    ("/tokenize", {"content": "a", "model": "nope"}, 404, "model"),
    ("/tokenize", {"content": "a", "model": 5}, 400, "model"),
    ("/detokenize", {}, 400, "tokens"),
    ("/detokenize", {"tokens": "a"}, 400, "tokens"),
    ("/detokenize", {"tokens": [-1]}, 400, "tokens"),
    ("/detokenize", {"tokens": [1.5]}, 400, "tokens"),
    ("/detokenize", {"tokens": [True]}, 400, "tokens"),
    ("/detokenize", {"tokens": [[1]]}, 400, "tokens"),
    ("/detokenize", {"tokens": [10**6]}, 400, "tokens"),
    ("/detokenize", {"tokens": [2**70]}, 400, "tokens"),
    ("/detokenize", {"tokens": [1], "model": "../../etc/passwd"}, 404, "model"),
]


@pytest.mark.parametrize(("path", "body", "status", "param"), REFUSED, ids=[f"{row[0]} {row[1]}" for row in REFUSED])
async def test_a_wrong_body_is_refused(
    door: RealDoor, path: str, body: dict[str, Any], status: int, param: str | None
) -> None:
    content = json.dumps(body).encode()
    response = await door.http.post(path, content=content, headers={"content-type": "application/json"})
    assert (response.status_code, response.json()["error"]["param"]) == (status, param)
    assert await door.ask("/detokenize", tokens=[]) == {"content": ""}


@pytest.mark.asyncio(loop_scope="function")
async def test_ids_need_no_running_request(client: httpx2.AsyncClient, service: ScriptedService) -> None:
    service.script = Script(hangs_before_start=True)
    assert (await client.post("/tokenize", json={"content": "a"})).json() == {"tokens": [1, 2, 3], "count": 3}
