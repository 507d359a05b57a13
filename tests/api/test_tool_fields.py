"""What a request says of tools reaches the service; what an answer calls reaches the client in OpenAI's shape."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import openai
import pytest

from myserve_ui.core.outputs import FinishReason
from myserve_ui.core.schemas.structured_output import StructuredOutput
from myserve_ui.core.tools import ToolCall, ToolChoice, ToolMode
from myserve_ui.serving.tool_use import ToolUse
from myserve_ui.tools.hermes import HermesFormat
from tests.api.scripted_service import Script, ScriptedService

CHAT = "/v1/chat/completions"
MESSAGES = [{"role": "user", "content": "hi"}]
WEATHER = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}, "strict": True}}
CLOCK = {"type": "function", "function": {"name": "clock"}}
FREE = ToolUse(HermesFormat(), frozenset({"weather", "clock"}), form=None)
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Paris"}}\n</tool_call>'


def script(*deltas: str, finish_reason: FinishReason = FinishReason.STOP) -> Script:
    return Script(deltas=deltas, finish_reason=finish_reason, tools=FREE)


async def ask(client: httpx2.AsyncClient, **fields: Any) -> dict[str, Any]:
    response = await client.post(CHAT, json={"model": "tiny", "messages": MESSAGES, **fields})
    assert response.status_code == 200, response.text
    return response.json()


async def test_tools_reach_the_service(service: ScriptedService, client: httpx2.AsyncClient) -> None:
    await ask(client, tools=[WEATHER, CLOCK], tool_choice=CLOCK, parallel_tool_calls=False)
    asked = service.requests[-1]
    assert [(tool.name, json.loads(tool.parameters), tool.strict) for tool in asked.tools] == [
        ("weather", {"type": "object"}, True),
        ("clock", {"type": "object", "properties": {}}, False),
    ]
    assert asked.tool_choice == ToolChoice(ToolMode.REQUIRED, "clock")
    assert asked.parallel_tool_calls is False


@pytest.mark.parametrize("choice", ["none", "auto", "required"])
async def test_a_choice_by_word_reaches_the_service(
    service: ScriptedService, client: httpx2.AsyncClient, choice: str
) -> None:
    await ask(client, tools=[CLOCK], tool_choice=choice)
    assert service.requests[-1].tool_choice == ToolChoice(ToolMode(choice))


async def test_calls_and_results_of_the_history_reach_the_service(
    service: ScriptedService, client: httpx2.AsyncClient
) -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Paris"}'}}
    history = [
        *MESSAGES,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": [{"type": "text", "text": "sunny"}]},
    ]
    await ask(client, messages=history)
    _, *turns, result = service.requests[-1].messages
    assert [(turn.content, turn.tool_calls) for turn in turns] == [
        ("", (ToolCall("call_1", "weather", '{"city": "Paris"}'),))
    ] * 2
    assert (result.role, result.content, result.tool_call_id) == ("tool", "sunny", "call_1")


SCHEMA = {"type": "object", "properties": {"b": {"type": "integer"}, "a": {}}}
FORMATS = [
    ({"type": "text"}, None),
    ({"type": "json_object"}, StructuredOutput.json_object()),
    ({"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}, StructuredOutput.json_schema(SCHEMA)),
]


@pytest.mark.parametrize(("response_format", "form"), FORMATS)
@pytest.mark.parametrize("path", [CHAT, "/v1/completions"])
async def test_a_form_reaches_the_service(
    service: ScriptedService,
    client: httpx2.AsyncClient,
    response_format: dict[str, Any],
    form: StructuredOutput | None,
    path: str,
) -> None:
    prompt = {"messages": MESSAGES} if path == CHAT else {"prompt": "hi"}
    assert (await client.post(path, json={"model": "tiny", **prompt, "response_format": response_format})).is_success
    assert service.requests[-1].params.structured_output == form


async def test_a_call_is_a_message_without_content(service: ScriptedService, sdk: openai.AsyncOpenAI) -> None:
    service.script = script(*CALL)
    answer = await sdk.chat.completions.create(model="tiny", messages=MESSAGES, tools=[WEATHER])
    choice = answer.choices[0]
    assert (choice.finish_reason, choice.message.content) == ("tool_calls", None)
    assert [(call.type, call.function.name, call.function.arguments) for call in choice.message.tool_calls] == [
        ("function", "weather", '{"city": "Paris"}')
    ]
    assert choice.message.tool_calls[0].id.startswith("call_")
    assert answer.usage.completion_tokens == len(CALL)


async def test_a_text_answer_has_no_calls(service: ScriptedService, client: httpx2.AsyncClient) -> None:
    service.script = script("Just ", "text")
    choice = (await ask(client, tools=[WEATHER]))["choices"][0]
    assert choice["message"] == {"role": "assistant", "content": "Just text", "refusal": None}
    assert choice["finish_reason"] == "stop"


async def test_a_call_that_is_no_json_is_text(service: ScriptedService, client: httpx2.AsyncClient) -> None:
    broken = CALL.replace('"Paris"', "Paris")
    service.script = script(*broken)
    choice = (await ask(client, tools=[WEATHER]))["choices"][0]
    assert (choice["message"]["content"], choice["finish_reason"]) == (broken, "stop")
    assert "tool_calls" not in choice["message"]


async def test_calls_that_the_length_cut_end_with_length(service: ScriptedService, client: httpx2.AsyncClient) -> None:
    service.script = script(CALL, "\n<tool_", finish_reason=FinishReason.LENGTH)
    choice = (await ask(client, tools=[WEATHER]))["choices"][0]
    assert choice["finish_reason"] == "length"
    assert len(choice["message"]["tool_calls"]) == 1


async def test_ids_of_calls_are_never_the_same(service: ScriptedService, client: httpx2.AsyncClient) -> None:
    service.script = script(CALL, CALL, CALL)
    answers = [await ask(client, tools=[WEATHER]) for _ in range(2)]
    ids = [call["id"] for answer in answers for call in answer["choices"][0]["message"]["tool_calls"]]
    assert len(set(ids)) == 6


async def test_a_stream_tells_a_call_as_openai_does(service: ScriptedService, client: httpx2.AsyncClient) -> None:
    service.script = script(*f"Let me look.\n{CALL}\n{CALL}")
    response = await client.post(CHAT, json={"model": "tiny", "messages": MESSAGES, "tools": [WEATHER], "stream": True})
    chunks = [json.loads(line[6:]) for line in response.text.splitlines() if line.startswith("data: {")]
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert "".join(delta.get("content") or "" for delta in deltas) == "Let me look."
    calls = [call for delta in deltas for call in delta.get("tool_calls", ())]
    first, arguments, second, *_ = calls
    assert first == {
        "index": 0,
        "id": first["id"],
        "type": "function",
        "function": {"name": "weather", "arguments": ""},
    }
    assert arguments == {"index": 0, "function": {"arguments": '{"city": "Paris"}'}}
    assert (second["index"], second["function"]["name"]) == (1, "weather")
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks if chunk["choices"][0]["finish_reason"]] == [
        "tool_calls"
    ]
    assert response.text.endswith("data: [DONE]\n\n")
