"""A chat answer over the wire: whole and streamed, through the official client and as raw events."""

from __future__ import annotations

import json

import httpx2
import openai
import pytest

from myserve_ui.core.outputs import FinishReason
from myserve_ui.core.requests import Message
from tests.api.scripted_service import READY, Script, ScriptedService

QUESTION = [{"role": "user", "content": "Say hello"}]
BODY = {"model": "tiny", "messages": QUESTION}


async def read_events(client: httpx2.AsyncClient, **fields: object) -> list[str]:
    """The data of each event of a streamed answer."""
    response = await client.post("/v1/chat/completions", json={**BODY, "stream": True, **fields})
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert response.text.endswith("\n\n")
    events = response.text.removesuffix("\n\n").split("\n\n")
    assert all(event.startswith("data: ") for event in events)
    return [event.removeprefix("data: ") for event in events]


async def test_an_answer_has_text_finish_reason_and_usage(sdk: openai.AsyncOpenAI) -> None:
    answer = await sdk.chat.completions.create(model="tiny", messages=QUESTION)
    assert answer.choices[0].message.content == "Hello"
    assert answer.choices[0].message.role == "assistant"
    assert answer.choices[0].finish_reason == "stop"
    assert answer.id.startswith("chatcmpl-")
    assert answer.object == "chat.completion"
    assert answer.model == "tiny"
    assert answer.usage.prompt_tokens == 3
    assert answer.usage.completion_tokens == 3
    assert answer.usage.total_tokens == 6
    assert answer.usage.prompt_tokens_details.cached_tokens == 2


async def test_streamed_deltas_joined_equal_the_whole_answer(sdk: openai.AsyncOpenAI) -> None:
    whole = await sdk.chat.completions.create(model="tiny", messages=QUESTION)
    stream = await sdk.chat.completions.create(
        model="tiny", messages=QUESTION, stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == whole.choices[0].message.content
    assert chunks[-1].choices == []
    assert chunks[-1].usage == whole.usage
    assert {(chunk.id, chunk.created, chunk.model) for chunk in chunks} == {
        (chunks[0].id, chunks[0].created, whole.model)
    }


async def test_a_stream_names_the_role_once_and_ends_once(client: httpx2.AsyncClient) -> None:
    events = await read_events(client)
    assert events[-1] == "[DONE]"
    assert events.count("[DONE]") == 1
    choices = [json.loads(event)["choices"][0] for event in events[:-1]]
    assert choices[0]["delta"] == {"role": "assistant", "content": ""}
    assert [choice for choice in choices[1:] if "role" in choice["delta"]] == []
    assert [choice["finish_reason"] for choice in choices] == [None, None, None, "stop"]
    assert choices[-1]["delta"] == {}


async def test_usage_comes_only_when_asked_for(client: httpx2.AsyncClient) -> None:
    without = [json.loads(event) for event in (await read_events(client))[:-1]]
    assert not any("usage" in chunk for chunk in without)
    asked = [json.loads(event) for event in (await read_events(client, stream_options={"include_usage": True}))[:-1]]
    assert [chunk["usage"] for chunk in asked[:-1]] == [None] * (len(asked) - 1)
    assert asked[-1]["usage"]["total_tokens"] == 6


async def test_an_empty_answer_still_has_a_role_an_end_and_empty_content(
    client: httpx2.AsyncClient, service: ScriptedService
) -> None:
    service.script = Script(deltas=[""])
    events = await read_events(client)
    assert [json.loads(event)["choices"][0]["finish_reason"] for event in events[:-1]] == [None, "stop"]
    whole = (await client.post("/v1/chat/completions", json=BODY)).json()
    assert whole["choices"][0]["message"]["content"] == ""


async def test_line_separators_survive_the_stream(sdk: openai.AsyncOpenAI, service: ScriptedService) -> None:
    text = "a\u2028b\u2029c\x85d\r\n\x00🙂é"
    service.script = Script(deltas=[text])
    stream = await sdk.chat.completions.create(model="tiny", messages=QUESTION, stream=True)
    assert "".join([chunk.choices[0].delta.content or "" async for chunk in stream]) == text
    whole = await sdk.chat.completions.create(model="tiny", messages=QUESTION)
    assert whole.choices[0].message.content == text


async def test_the_length_limit_is_told_as_length(sdk: openai.AsyncOpenAI, service: ScriptedService) -> None:
    service.script = Script(finish_reason=FinishReason.LENGTH)
    answer = await sdk.chat.completions.create(model="tiny", messages=QUESTION, max_tokens=2)
    assert answer.choices[0].finish_reason == "length"


@pytest.mark.parametrize("reason", [FinishReason.ERROR, FinishReason.ABORT])
async def test_a_failure_after_the_first_byte_is_one_error_event_and_no_end(
    client: httpx2.AsyncClient, service: ScriptedService, reason: FinishReason
) -> None:
    service.script = Script(deltas=["Hel", "lo"], finish_reason=reason, error="The step failed.")
    events = [json.loads(event) for event in await read_events(client)]
    assert set(events[-1]["error"]) == {"message", "type", "param", "code"}
    assert events[-1]["error"]["type"] == "server_error"
    assert not any(chunk["choices"][0]["finish_reason"] for chunk in events[:-1])
    assert service.open_streams == 0


async def test_a_failed_choice_ends_the_answer_of_all(client: httpx2.AsyncClient, service: ScriptedService) -> None:
    service.script = Script(deltas=["Hel", "lo"], finish_reason=FinishReason.ERROR, error="The step failed.")
    events = [json.loads(event) for event in await read_events(client, n=3)]
    assert [event for event in events if "error" in event] == events[-1:]
    assert service.open_streams == 0
    whole = await client.post("/v1/chat/completions", json={**BODY, "n": 3})
    assert (whole.status_code, service.open_streams) == (500, 0)


async def test_an_exception_in_a_stream_tells_nothing_of_the_inside(
    client: httpx2.AsyncClient, service: ScriptedService
) -> None:
    service.script = Script(deltas=["Hel"], breaks_with=KeyError("/secret/path"))
    events = await read_events(client)
    assert "secret" not in events[-1]
    assert json.loads(events[-1])["error"]["type"] == "server_error"


async def test_a_failed_whole_answer_is_a_500_with_its_reason(
    client: httpx2.AsyncClient, service: ScriptedService
) -> None:
    service.script = Script(finish_reason=FinishReason.ERROR, error="The step failed.")
    response = await client.post("/v1/chat/completions", json=BODY)
    assert response.status_code == 500
    assert response.json()["error"]["message"] == "The step failed."
    service.script = Script()
    assert (await client.post("/v1/chat/completions", json=BODY)).status_code == 200


async def test_every_field_reaches_the_service(client: httpx2.AsyncClient, service: ScriptedService) -> None:
    fields = {
        "temperature": 0.5,
        "top_p": 1,
        "top_k": 3,
        "min_p": 0.1,
        "seed": -1,
        "max_completion_tokens": 9,
        "min_tokens": 2,
        "stop": "x",
        "stop_token_ids": [4],
        "ignore_eos": True,
        "cache_prompt": False,
    }
    assert (await client.post("/v1/chat/completions", json={**BODY, **fields})).status_code == 200
    request = service.requests[-1]
    params = request.params
    assert (params.temperature, params.top_p, params.top_k, params.min_p, params.seed) == (0.5, 1, 3, 0.1, -1)
    assert (params.max_tokens, params.min_tokens, params.stop) == (9, 2, ("x",))
    assert (params.stop_token_ids, params.ignore_eos, request.cache_prompt) == ((4,), True, False)


async def test_null_means_absent_for_every_optional_field(client: httpx2.AsyncClient, service: ScriptedService) -> None:
    names = (
        "temperature top_p top_k min_p seed max_tokens max_completion_tokens min_tokens stop stop_token_ids ignore_eos"
    )
    names += (
        " cache_prompt stream stream_options continue_final_message n logprobs tools response_format logit_bias user"
    )
    await client.post("/v1/chat/completions", json=BODY)
    nulls = dict.fromkeys(names.split())
    assert (await client.post("/v1/chat/completions", json={**BODY, **nulls})).status_code == 200
    assert service.requests[0] == service.requests[1]


async def test_content_parts_are_joined_and_developer_is_system(
    client: httpx2.AsyncClient, service: ScriptedService
) -> None:
    parts = [{"type": "text", "text": " a"}, {"type": "text", "text": "b "}]
    messages = [{"role": "developer", "content": "Be kind"}, {"role": "user", "content": parts}]
    assert (await client.post("/v1/chat/completions", json={"model": "tiny", "messages": messages})).status_code == 200
    assert service.requests[-1].messages == (Message("system", "Be kind"), Message("user", " ab "))


async def test_only_an_assistant_turn_can_be_continued(client: httpx2.AsyncClient, service: ScriptedService) -> None:
    response = await client.post("/v1/chat/completions", json={**BODY, "continue_final_message": True})
    assert response.status_code == 400
    assert response.json()["error"]["param"] == "continue_final_message"
    messages = [*QUESTION, {"role": "assistant", "content": "Hel"}]
    body = {"model": "tiny", "messages": messages, "continue_final_message": True}
    assert (await client.post("/v1/chat/completions", json=body)).status_code == 200
    assert service.requests[-1].continue_final_message


async def test_streams_are_closed_when_they_end(client: httpx2.AsyncClient, service: ScriptedService) -> None:
    await read_events(client)
    await client.post("/v1/chat/completions", json=BODY)
    assert service.open_streams == 0
    assert service.health is READY
