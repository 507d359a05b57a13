"""Calls of a tiny real model: where they are asked for, they always fit their function, whatever the seed."""

import asyncio
import json

import pytest

from myserve_ui.core.outputs import FinishReason
from myserve_ui.core.requests import ChatRequest, Message
from myserve_ui.core.schemas.structured_output import StructuredOutput
from myserve_ui.core.tools import Tool, ToolCall, ToolChoice, ToolMode
from myserve_ui.errors import InvalidRequestError
from tests.conftest import chat_request
from tests.support.tool_models import CLOCK, WEATHER, load_with_tools, tool_request

REQUIRED = ToolChoice(ToolMode.REQUIRED)
NAMED = ToolChoice(ToolMode.REQUIRED, "weather")


@pytest.fixture
def tool_service(make_service):
    """Factory of a service over tiny models by the name of their template."""
    return lambda *names: make_service(*(names or ("hermes",)), load=load_with_tools)


async def read_answer(stream):
    """Text, calls as (name, arguments), and the last output."""
    parser, texts, calls = stream.tools.start_parser(), [], []
    async with stream:
        async for output in stream:
            last = output
            for delta in (parser.add(output.text_delta), parser.finish() if output.finish_reason else None):
                texts.append(delta.text if delta else "")
                calls += delta.calls if delta else ()
    names = [delta.name for delta in calls if delta.name]
    arguments = ["".join(d.arguments for d in calls if d.index == index) for index in range(len(names))]
    return "".join(texts), list(zip(names, map(json.loads, arguments), strict=True)), last


def fits(name: str, arguments: object) -> bool:
    if name == "clock":
        return arguments == {}
    return (
        list(arguments) == ["city", "days"]
        and arguments["city"] in ("Paris", "Rome")
        and type(arguments["days"]) is int
        and 1 <= arguments["days"] <= 9
    )


@pytest.mark.parametrize("template", ["hermes", "llama3"])
@pytest.mark.parametrize("seed", range(4))
async def test_a_named_function_is_called_once_and_rightly(tool_service, template, seed):
    service = await tool_service(template)
    text, calls, last = await read_answer(await service.start_chat(tool_request(choice=NAMED, seed=seed)))
    assert (text, len(calls), last.finish_reason) == ("", 1, FinishReason.STOP)
    assert calls[0][0] == "weather" and fits(*calls[0])


@pytest.mark.parametrize("seed", range(4))
async def test_a_required_call_is_made_and_one_alone_if_asked_so(tool_service, seed):
    service = await tool_service()
    request = tool_request(choice=REQUIRED, parallel=False, seed=seed)
    text, calls, last = await read_answer(await service.start_chat(request))
    assert (text, len(calls), last.finish_reason) == ("", 1, FinishReason.STOP)
    assert fits(*calls[0])


async def test_several_required_calls_all_fit(tool_service):
    service = await tool_service()
    asked = [tool_request(choice=REQUIRED, seed=seed, max_tokens=300) for seed in range(3)]
    answers = await asyncio.gather(*[read_answer(await service.start_chat(request)) for request in asked])
    assert all(calls and not text for text, calls, _ in answers)
    assert any(len(calls) > 1 for _, calls, _ in answers)
    assert all(fits(name, arguments) for _, calls, _ in answers for name, arguments in calls)


async def test_choices_each_make_a_call(tool_service):
    service = await tool_service()
    streams = await service.start_chat_choices(tool_request(choice=NAMED, seed=1), 3)
    answers = await asyncio.gather(*map(read_answer, streams))
    assert [len(calls) for _, calls, _ in answers] == [1, 1, 1]


async def test_strict_functions_hold_free_answers_and_their_text_stays_free(tool_service):
    service = await tool_service()
    strict = Tool(CLOCK.name, CLOCK.parameters, strict=True)
    stream = await service.start_chat(tool_request(strict, seed=1, max_tokens=20))
    assert stream.tools.form is not None
    text, calls, last = await read_answer(stream)
    assert text and not calls
    assert last.usage.completion_tokens == 20 or last.finish_reason is FinishReason.STOP


async def test_a_model_that_may_call_writes_as_freely_as_one_that_may_not(tool_service):
    service = await tool_service()
    stream = await service.start_chat(tool_request(seed=1))
    assert stream.tools.form is None
    assert (await service.start_chat(tool_request(choice=ToolChoice(ToolMode.NONE)))).tools is None


async def test_functions_stand_in_the_prompt_unless_none_may_be_called(tool_service):
    service = await tool_service()
    lengths = [
        len((await service.start_chat(tool_request(choice=ToolChoice(mode)))).prompt_token_ids) for mode in ToolMode
    ]
    none, auto, required = lengths
    assert none < auto == required


@pytest.mark.parametrize("template", ["toolless"])
async def test_a_model_without_tools_says_so_before_the_stream(tool_service, template):
    service = await tool_service(template)
    with pytest.raises(InvalidRequestError, match="takes no tools") as refused:
        await service.start_chat(tool_request())
    assert refused.value.param == "tools"
    with pytest.raises(InvalidRequestError, match="takes no tools") as refused:
        await service.start_chat(ChatRequest((Message("user", "a"), Message("tool", "4", tool_call_id="x"))))
    assert refused.value.param == "messages[1]"
    assert await service.start_chat(tool_request(choice=ToolChoice(ToolMode.NONE)))


async def test_a_byte_model_has_no_tools(make_service):
    service = await make_service("llama")
    with pytest.raises(InvalidRequestError, match="no tools"):
        await service.start_chat(tool_request())


async def test_a_schema_that_cannot_be_kept_is_refused_only_where_it_must_be_kept(tool_service):
    service = await tool_service()
    odd = Tool("odd", '{"type":"object","not":{}}')
    with pytest.raises(InvalidRequestError) as refused:
        await service.start_chat(tool_request(WEATHER, odd, choice=REQUIRED))
    assert refused.value.param == "tools[1].function.parameters"
    assert await service.start_chat(tool_request(WEATHER, odd))
    impossible = Tool("f", '{"type":"object","properties":{"a":{"enum":[]}},"required":["a"]}')
    with pytest.raises(InvalidRequestError) as refused:
        await service.start_chat(tool_request(impossible, choice=REQUIRED))
    assert refused.value.param == "tools"


async def test_a_form_and_calls_are_not_asked_for_together(tool_service):
    service = await tool_service()
    form = StructuredOutput.json_object()
    with pytest.raises(InvalidRequestError) as refused:
        await service.start_chat(tool_request(structured_output=form))
    assert refused.value.param == "response_format"
    assert await service.start_chat(tool_request(choice=ToolChoice(ToolMode.NONE), structured_output=form))


async def test_neighbours_say_what_they_say_alone(tool_service):
    service = await tool_service()

    async def say(request):
        async with await service.start_chat(request) as stream:
            return "".join([output.text_delta async for output in stream])

    plain = chat_request("plain", max_tokens=40)
    alone = await say(plain)
    together = await asyncio.gather(say(plain), say(tool_request(choice=REQUIRED)), say(tool_request(choice=NAMED)))
    assert together[0] == alone


async def test_calls_and_results_of_the_history_stand_in_the_prompt(tool_service):
    service = await tool_service()
    call = ToolCall("call_1", "weather", '{"city": "Paris", "days": 2}')
    messages = (
        Message("user", "Hello"),
        Message("assistant", "", tool_calls=(call,)),
        Message("tool", "sunny", tool_call_id="call_1"),
    )
    stream = await service.start_chat(ChatRequest(messages, tools=(WEATHER,)))
    prompt = stream.tokenizer.decode(stream.prompt_token_ids)
    assert '<tool_call>\n{"name": "weather", "arguments": {"city": "Paris", "days": 2}}\n</tool_call>' in prompt
    assert prompt.endswith("tool\nsunny\nassistant\n")
