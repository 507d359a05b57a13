"""Tools and forms through the official client, over real tiny engines and a real socket."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.api.live import serve_door
from tests.conftest import MakeService
from tests.support.tool_models import load_with_tools

MESSAGES = [{"role": "user", "content": "Hello"}]
SCHEMA = {
    "type": "object",
    "properties": {"city": {"enum": ["Paris", "Rome"]}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
WEATHER = {"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}
CLOCK = {"type": "function", "function": {"name": "clock", "parameters": {"type": "object", "maxProperties": 0}}}
NAMED = {"type": "function", "function": {"name": "weather"}}
FORM = {"type": "json_schema", "json_schema": {"name": "trip", "strict": True, "schema": SCHEMA}}


@pytest.fixture
async def sdk(make_service: MakeService) -> AsyncIterator[openai.AsyncOpenAI]:
    service = await make_service("hermes", "toolless", load=load_with_tools)
    async for _ in service.load("toolless"):
        pass
    async with (
        serve_door(service) as url,
        openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0) as client,
    ):
        yield client


async def ask(sdk: openai.AsyncOpenAI, **fields: Any) -> Any:
    settings = {"model": "hermes", "messages": MESSAGES, "temperature": 1.5, "max_tokens": 160, **fields}
    return await sdk.chat.completions.create(**settings)


def check_weather(arguments: str) -> None:
    weather = json.loads(arguments)
    assert list(weather) == ["city", "days"]
    assert weather["city"] in ("Paris", "Rome")
    assert 1 <= weather["days"] <= 9


@pytest.mark.parametrize("choice", ["required", NAMED])
async def test_a_streamed_call_equals_the_whole_one(sdk: openai.AsyncOpenAI, choice: Any) -> None:
    fields = {"tools": [WEATHER, CLOCK], "tool_choice": choice, "parallel_tool_calls": False, "seed": 5}
    whole = await ask(sdk, **fields)
    stream = await ask(sdk, **fields, stream=True, stream_options={"include_usage": True})
    chunks = [chunk async for chunk in stream]
    news = [call for chunk in chunks if chunk.choices for call in chunk.choices[0].delta.tool_calls or ()]
    call = whole.choices[0].message.tool_calls[0]
    assert news[0].function.name == call.function.name
    assert "".join(part.function.arguments for part in news) == call.function.arguments
    assert not any(chunk.choices[0].delta.content for chunk in chunks if chunk.choices)
    assert chunks[-2].choices[0].finish_reason == whole.choices[0].finish_reason == "tool_calls"
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens


async def test_arguments_come_in_pieces_while_they_are_written(sdk: openai.AsyncOpenAI) -> None:
    stream = await ask(sdk, tools=[WEATHER], tool_choice=NAMED, stream=True)
    news = [call async for chunk in stream for call in chunk.choices[0].delta.tool_calls or ()]
    assert len(news) > 3
    check_weather("".join(part.function.arguments for part in news))


async def test_each_choice_has_its_own_call(sdk: openai.AsyncOpenAI) -> None:
    answer = await ask(sdk, tools=[WEATHER], tool_choice=NAMED, n=3, seed=1)
    calls = [call for choice in answer.choices for call in choice.message.tool_calls]
    assert len({call.id for call in calls}) == 3
    for call in calls:
        check_weather(call.function.arguments)


async def test_a_call_that_the_length_cut_says_so(sdk: openai.AsyncOpenAI) -> None:
    answer = await ask(sdk, tools=[WEATHER], tool_choice=NAMED, max_tokens=50)
    assert answer.choices[0].finish_reason == "length"
    assert answer.choices[0].message.content is None
    arguments = answer.choices[0].message.tool_calls[0].function.arguments
    assert arguments.startswith("{") and not arguments.endswith("}")


async def test_log_probabilities_are_of_the_content_alone(sdk: openai.AsyncOpenAI) -> None:
    called = await ask(sdk, tools=[WEATHER], tool_choice=NAMED, logprobs=True)
    assert called.choices[0].logprobs.content == []
    said = await ask(sdk, tools=[WEATHER], logprobs=True, seed=2, max_tokens=30)
    joined = b"".join(bytes(entry.bytes) for entry in said.choices[0].logprobs.content)
    assert joined.decode(errors="replace") == said.choices[0].message.content


async def test_a_result_goes_into_the_next_turn(sdk: openai.AsyncOpenAI) -> None:
    first = await ask(sdk, tools=[WEATHER], tool_choice=NAMED)
    message = first.choices[0].message
    history = [*MESSAGES, message, {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "sunny"}]
    second = await ask(sdk, messages=history, tools=[WEATHER], tool_choice="none", max_tokens=5)
    assert second.usage.prompt_tokens > len(message.tool_calls[0].function.arguments)
    assert second.usage.completion_tokens <= 5


async def test_a_model_without_tools_is_a_400_that_says_so(sdk: openai.AsyncOpenAI) -> None:
    for stream in (False, True):
        with pytest.raises(openai.BadRequestError, match="takes no tools") as refused:
            await ask(sdk, model="toolless", tools=[WEATHER], stream=stream)
        assert refused.value.param == "tools"
    assert (await ask(sdk, model="toolless", max_tokens=1)).usage.completion_tokens == 1


async def test_models_tell_whether_they_take_tools(sdk: openai.AsyncOpenAI) -> None:
    for name, takes_tools in [("hermes", True), ("toolless", False)]:
        assert (await sdk.models.retrieve(name)).model_dump()["takes_tools"] is takes_tools


async def test_the_example_makes_a_call_where_the_model_takes_tools(sdk: openai.AsyncOpenAI) -> None:
    source = (Path(__file__).parents[2] / "examples" / "tools.py").read_text()
    source = source.replace("http://127.0.0.1:7860/v1", str(sdk.base_url))
    running = await asyncio.create_subprocess_exec(sys.executable, "-c", source, stdout=subprocess.PIPE)
    said, _ = await running.communicate()
    assert running.returncode == 0
    assert re.match(r'get_weather\(\{\s*"city".*"unit".*\}\) -> Sunny in ', said.decode(), re.DOTALL)


async def test_a_form_is_kept_with_choices_streams_and_log_probabilities(sdk: openai.AsyncOpenAI) -> None:
    whole = await ask(sdk, response_format=FORM, n=2, seed=3, logprobs=True, top_logprobs=1)
    for choice in whole.choices:
        check_weather(choice.message.content)
        joined = b"".join(bytes(entry.bytes) for entry in choice.logprobs.content).decode()
        assert (joined, choice.finish_reason) == (choice.message.content, "stop")
    stream = await ask(sdk, response_format=FORM, n=2, seed=3, stream=True)
    texts = ["", ""]
    async for chunk in stream:
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
    assert texts == [choice.message.content for choice in whole.choices]


async def test_a_form_and_a_stop_string_go_together(sdk: openai.AsyncOpenAI) -> None:
    answer = await ask(sdk, response_format=FORM, stop=[","])
    assert json.loads(answer.choices[0].message.content + "}").keys() == {"city"}


async def test_a_text_completion_keeps_a_form(sdk: openai.AsyncOpenAI) -> None:
    answers = await asyncio.gather(
        *(
            sdk.completions.create(
                model="hermes", prompt="A trip:", max_tokens=160, seed=seed, extra_body={"response_format": FORM}
            )
            for seed in range(3)
        )
    )
    for answer in answers:
        check_weather(answer.choices[0].text)


async def test_a_form_cannot_go_with_tools(sdk: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        await ask(sdk, tools=[WEATHER], response_format=FORM)
    assert refused.value.param == "response_format"
    kept = await ask(sdk, tools=[WEATHER], tool_choice="none", response_format=FORM)
    check_weather(kept.choices[0].message.content)


async def test_a_schema_that_cannot_be_kept_is_refused_by_its_place(sdk: openai.AsyncOpenAI) -> None:
    odd = {"type": "function", "function": {"name": "odd", "parameters": {"type": "object", "not": {}}}}
    strict = {"type": "function", "function": {**odd["function"], "strict": True}}
    for tools, choice in [([strict], "auto"), ([odd], "required")]:
        with pytest.raises(openai.BadRequestError) as refused:
            await ask(sdk, tools=tools, tool_choice=choice)
        assert refused.value.param == "tools[0].function.parameters"
    assert (await ask(sdk, tools=[odd], max_tokens=1)).usage.completion_tokens == 1
