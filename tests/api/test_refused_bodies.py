"""Bodies that must be refused: each with 400 and the field's path, at once, and the next request is served."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest

from tests.api.scripted_service import ScriptedService

USER = {"role": "user", "content": "Hi"}
GOOD = {"model": "tiny", "messages": [USER]}

MESSAGES: list[tuple[Any, str]] = [
    (None, "messages"),
    ("x", "messages"),
    ([], "messages"),
    ([123], "messages[0]"),
    ([{}], "messages[0].role"),
    ([{"role": 5, "content": "x"}], "messages[0].role"),
    ([{"role": "banana", "content": "x"}], "messages[0].role"),
    ([{"role": "tool", "content": "x"}], "messages[0].tool_call_id"),
    ([USER, {"role": "user", "content": 5}], "messages[1].content"),
    ([{"role": "user", "content": {"a": 1}}], "messages[0].content"),
    ([{"role": "user", "content": None}], "messages[0].content"),
    ([{"role": "user"}], "messages[0].content"),
    ([{"role": "assistant", "content": None}], "messages[0].content"),
    ([{"role": "user", "content": ["x"]}], "messages[0].content"),
    ([{"role": "user", "content": [{"type": "text"}]}], "messages[0].content"),
    ([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}], "messages[0].content"),
    ([{"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}], "messages[0].content"),
    ([{"role": "assistant", "content": "x", "tool_calls": [{"id": "1"}]}], "messages[0].tool_calls[0].type"),
]

FIELDS: list[tuple[str, Any]] = [
    ("max_tokens", 0),
    ("max_tokens", -1),
    ("max_tokens", 1.5),
    ("max_tokens", "7"),
    ("max_tokens", True),
    ("max_tokens", 1e9),
    ("max_tokens", 2**63),
    ("max_tokens", 10**300),
    ("max_completion_tokens", 0),
    ("max_completion_tokens", "7"),
    ("max_completion_tokens", 2**63),
    ("min_tokens", -1),
    ("temperature", -0.1),
    ("temperature", 2.1),
    ("temperature", 999999),
    ("temperature", "1"),
    ("temperature", True),
    ("temperature", [1]),
    ("top_p", 1.1),
    ("top_p", -1),
    ("top_k", -2),
    ("top_k", 0.5),
    ("min_p", 1.1),
    ("seed", 2**63),
    ("seed", 1.5),
    ("seed", "a"),
    ("stop", ""),
    ("stop", [""]),
    ("stop", ["a", "b", "c", "d", "e"]),
    ("stop", ["s"] * 500_000),
    ("stop", 5),
    ("stop", {"a": 1}),
    ("stop_token_ids", [1.5]),
    ("stop_token_ids", [-1]),
    ("stop_token_ids", "a"),
    ("ignore_eos", 1),
    ("cache_prompt", "yes"),
    ("continue_final_message", 1),
    ("stream", "true"),
    ("stream", 1),
    ("model", ""),
    ("model", None),
    ("model", 5),
    ("n", 0),
    ("n", -1),
    ("n", 17),
    ("n", 129),
    ("n", 1.5),
    ("n", True),
    ("n", 10**9),
    ("repetition_penalty", 0),
    ("repetition_penalty", 1e300),
    ("repetition_penalty", 1e6 + 1),
    ("repetition_penalty", -1),
    ("repetition_penalty", "1"),
    ("presence_penalty", 2.01),
    ("presence_penalty", -2.01),
    ("frequency_penalty", 2.01),
    ("frequency_penalty", -2.01),
    ("logprobs", 1),
    ("logprobs", "true"),
    ("return_token_ids", 1),
    ("top_logprobs", 21),
    ("top_logprobs", -1),
    ("top_logprobs", 5),
    ("response_format", "text"),
    ("tool_choice", "required"),
    ("functions", [{}]),
    ("modalities", ["audio"]),
    ("audio", {"voice": "x"}),
    ("prediction", {"type": "content"}),
    ("chat_template", "{{ messages }}"),
    ("best_of", 2),
    ("suffix", "x"),
    ("echo", True),
]

NEUTRAL: list[tuple[str, Any]] = [
    ("n", 1),
    ("n", 16),
    ("logprobs", False),
    ("top_logprobs", 0),
    ("presence_penalty", 0),
    ("frequency_penalty", 0.0),
    ("repetition_penalty", 1.0),
    ("logit_bias", {}),
    ("response_format", {"type": "text"}),
    ("tools", []),
    ("tool_choice", "none"),
    ("modalities", ["text"]),
    ("user", "someone"),
    ("metadata", {"a": "b"}),
    ("store", True),
    ("seed", -1),
    ("top_k", -1),
    ("stop", []),
    ("a_field_nobody_knows", {"x": [1]}),
]

RAW: list[tuple[str, bytes]] = [
    ("empty", b""),
    ("blank", b"  \n"),
    ("null", b"null"),
    ("number", b"42"),
    ("array", b"[]"),
    ("string", b'"x"'),
    ("trailing comma", b'{"model": "tiny",}'),
    ("cut off", b'{"model": "ti'),
    ("two objects", b"{}{}"),
    ("single quotes", b"{'model': 1}"),
    ("invalid UTF-8", b'{"model": "\xff\xfe"}'),
    ("UTF-16", json.dumps(GOOD).encode("utf-16")),
    ("UTF-16 without mark", json.dumps(GOOD).encode("utf-16-le")),
    ("UTF-8 with mark", b"\xef\xbb\xbf" + json.dumps(GOOD).encode()),
    ("nested arrays", b"[" * 20_000),
    ("nested arrays, closed", b'{"x":' + b"[" * 20_000 + b"]" * 20_000 + b"}"),
    ("nested objects", b'{"a":' * 20_000),
    ("NaN", b'{"model": "tiny", "messages": [], "temperature": NaN}'),
    ("NaN elsewhere", b'{"top_p": NaN}'),
    ("NaN as a bias", b'{"logit_bias": {"1": NaN}}'),
    ("Infinity", b'{"temperature": Infinity}'),
    ("-Infinity", b'{"temperature": -Infinity}'),
    ("1e400", b'{"temperature": 1e400}'),
    ("a number of 10,000 digits", b'{"seed": ' + b"9" * 10_000 + b"}"),
]

LONE = "cut \ud83d"
SURROGATES: list[tuple[dict[str, Any], str | None]] = [
    ({**GOOD, "messages": [{"role": "user", "content": LONE}]}, "messages[0].content"),
    (
        {**GOOD, "messages": [{"role": "user", "content": [{"type": "text", "text": LONE}]}]},
        "messages[0].content[0].text",
    ),
    ({**GOOD, "stop": [LONE]}, "stop[0]"),
    ({**GOOD, "model": LONE}, "model"),
    ({**GOOD, "user": LONE}, "user"),
    ({**GOOD, LONE: 1}, None),
    ({**GOOD, "metadata": {LONE: 1}}, None),
]


async def post(client: httpx2.AsyncClient, body: Any, path: str = "/v1/chat/completions") -> httpx2.Response:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return await client.post(path, content=content, headers={"content-type": "application/json"})


async def assert_refused(client: httpx2.AsyncClient, body: Any, param: str | None, path: str) -> None:
    """A 400 in the one shape, small, naming `param`; and then a good request is served."""
    response = await post(client, body, path)
    assert response.status_code == 400, response.text
    assert response.headers["content-type"] == "application/json"
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["type"] == "invalid_request_error"
    assert error["param"] == param
    assert len(response.content) < 8192
    assert "pydantic" not in error["message"].lower()
    assert (await post(client, GOOD)).status_code == 200


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("messages", "param"), MESSAGES, ids=[json.dumps(value)[:60] for value, _ in MESSAGES])
async def test_wrong_messages_are_refused(client: httpx2.AsyncClient, messages: Any, param: str, stream: bool) -> None:
    body = {**GOOD, "messages": messages, "stream": stream}
    await assert_refused(client, body, param, "/v1/chat/completions")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("name", "value"), FIELDS, ids=[f"{name}={str(value)[:20]}" for name, value in FIELDS])
async def test_a_wrong_field_is_refused_by_name(
    client: httpx2.AsyncClient, name: str, value: Any, stream: bool
) -> None:
    response = await post(client, {**GOOD, "stream": stream, name: value})
    assert response.status_code == 400
    assert response.json()["error"]["param"].partition("[")[0] == name
    assert len(response.content) < 8192
    assert (await post(client, GOOD)).status_code == 200


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("stop", ["a", "b", "c", "d", "e"], "stop takes at most 4 item(s), got 5."),
        ("repetition_penalty", 0, "repetition_penalty must be a number above 0 and at most 1000000, got 0.0."),
        ("repetition_penalty", -1, "repetition_penalty must be a number above 0 and at most 1000000, got -1.0."),
    ],
)
async def test_a_refusal_says_the_bound_and_what_came(
    client: httpx2.AsyncClient, name: str, value: Any, message: str
) -> None:
    assert (await post(client, {**GOOD, name: value})).json()["error"]["message"] == message


@pytest.mark.parametrize(("name", "value"), NEUTRAL)
async def test_a_neutral_value_is_accepted(client: httpx2.AsyncClient, name: str, value: Any) -> None:
    assert (await post(client, {**GOOD, name: value})).status_code == 200


@pytest.mark.parametrize("body", [raw for _, raw in RAW], ids=[name for name, _ in RAW])
async def test_what_is_not_a_json_object_is_refused(client: httpx2.AsyncClient, body: bytes) -> None:
    await assert_refused(client, body, None, "/v1/chat/completions")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("body", "param"), SURROGATES)
async def test_half_a_surrogate_pair_is_refused(
    client: httpx2.AsyncClient, body: dict[str, Any], param: str | None, stream: bool
) -> None:
    await assert_refused(client, {**body, "stream": stream}, param, "/v1/chat/completions")


@pytest.mark.parametrize(
    "text", ["\x00", "\uffff", "\u202eabc\u202c", "👩‍👩‍👧", "e" + "\u0301" * 100, "<|im_end|>", "🙂"]
)
async def test_unusual_but_whole_text_reaches_the_service_unchanged(
    client: httpx2.AsyncClient, service: ScriptedService, text: str
) -> None:
    body = {"model": "tiny", "messages": [{"role": "user", "content": text}]}
    assert (await post(client, body)).status_code == 200
    assert service.requests[-1].messages[0].content == text


async def test_several_thousand_wrong_messages_give_one_small_error(client: httpx2.AsyncClient) -> None:
    body = {"model": "tiny", "messages": [{"role": "nobody", "content": 5}] * 5000}
    await assert_refused(client, body, "messages[0].role", "/v1/chat/completions")


async def test_the_names_of_max_tokens_must_agree(client: httpx2.AsyncClient) -> None:
    both = {**GOOD, "max_tokens": 5, "max_completion_tokens": 5}
    assert (await post(client, both)).status_code == 200
    await assert_refused(client, {**both, "max_tokens": 6}, "max_completion_tokens", "/v1/chat/completions")


async def test_stream_options_need_a_stream(client: httpx2.AsyncClient) -> None:
    body = {**GOOD, "stream_options": {"include_usage": True}}
    await assert_refused(client, body, "stream_options", "/v1/chat/completions")


@pytest.mark.parametrize(
    "prompt",
    [
        *(None, 5, {"a": 1}, [], [[]], [None], [-1], [1.5], [True], [1, "a"], ["a", 1], ["a", [1]], [[1], 2]),
        *([[1], []], [[1], [-1]], ["x"] * 10_000, [[1]] * 65),
    ],
)
async def test_a_wrong_prompt_is_refused(client: httpx2.AsyncClient, prompt: Any) -> None:
    await assert_refused(client, {"model": "tiny", "prompt": prompt}, "prompt", "/v1/completions")


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "prompt"),
        ({"prompt": 5}, "prompt"),
        ({"prompt": None}, "prompt"),
        ({"prompt": "x", "max_new_tokens": 0}, "max_new_tokens"),
        ({"prompt": "x", "max_new_tokens": "5"}, "max_new_tokens"),
        ({"prompt": "x", "max_new_tokens": True}, "max_new_tokens"),
        ({"prompt": "x", "max_new_tokens": 2**63}, "max_new_tokens"),
    ],
)
@pytest.mark.parametrize("path", ["/generate", "/stream"])
async def test_the_plain_routes_refuse_by_the_same_rules(
    client: httpx2.AsyncClient, path: str, body: dict[str, Any], param: str
) -> None:
    await assert_refused(client, body, param, path)


async def test_an_unknown_field_is_named_in_the_log_once(
    client: httpx2.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        await post(client, {**GOOD, "wished\nfor": 1, "user": "x", "n": 1})
    assert [record.getMessage() for record in caplog.records] == [r"ignoring the unknown request field 'wished\nfor'"]
