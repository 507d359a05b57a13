"""Answers of a tiny real model that are held to a form: always right, beside others, streamed, with logprobs."""

import asyncio
import json

import pytest

from myserve_ui.core.outputs import FinishReason
from myserve_ui.core.schemas.structured_output import StructuredOutput
from myserve_ui.errors import InvalidRequestError
from tests.conftest import chat_request

PERSON = StructuredOutput.json_schema(
    {
        "type": "object",
        "properties": {
            "name": {"type": "string", "maxLength": 8},
            "age": {"type": "integer", "minimum": 0, "maximum": 99},
        },
        "required": ["name", "age"],
        "additionalProperties": False,
    }
)


async def answer(service, request):
    async with await service.start_chat(request) as stream:
        outputs = [output async for output in stream]
    return "".join(output.text_delta for output in outputs), outputs


@pytest.mark.parametrize("seed", range(8))
async def test_a_random_model_still_gives_what_the_schema_allows(make_service, seed):
    service = await make_service("llama")
    request = chat_request(structured_output=PERSON, temperature=1.5, seed=seed, max_tokens=200)
    text, outputs = await answer(service, request)
    person = json.loads(text)
    assert outputs[-1].finish_reason is FinishReason.STOP
    assert set(person) == {"name", "age"}
    assert 0 <= person["age"] <= 99


async def test_neighbours_without_a_form_say_what_they_say_alone(make_service):
    service = await make_service("llama")
    plain = [chat_request(f"plain {n}", max_tokens=30) for n in range(3)]
    alone = [(await answer(service, request))[0] for request in plain]
    held = [chat_request(f"held {n}", structured_output=PERSON, max_tokens=200) for n in range(3)]
    together = await asyncio.gather(*(answer(service, request) for request in [*plain, *held]))
    assert [text for text, _ in together[:3]] == alone
    assert all(set(json.loads(text)) == {"name", "age"} for text, _ in together[3:])


async def test_min_tokens_and_ignore_eos_do_not_make_a_complete_answer_longer(make_service):
    service = await make_service("llama")
    request = chat_request(structured_output=PERSON, min_tokens=150, ignore_eos=True, max_tokens=200)
    assert set(json.loads((await answer(service, request))[0])) == {"name", "age"}


async def test_a_stop_string_ends_a_held_answer_too(make_service):
    service = await make_service("llama")
    text, outputs = await answer(service, chat_request(structured_output=PERSON, stop=(",",), max_tokens=200))
    assert outputs[-1].stop_reason == ","
    assert "," not in text


async def test_the_length_ends_a_held_answer_too(make_service):
    service = await make_service("llama")
    _, outputs = await answer(service, chat_request(structured_output=PERSON, max_tokens=3))
    assert outputs[-1].finish_reason is FinishReason.LENGTH


async def test_logprobs_of_a_held_answer_are_the_models_own(make_service):
    service = await make_service("llama")
    _, outputs = await answer(service, chat_request(structured_output=PERSON, logprobs=2, max_tokens=200))
    entries = [entry for output in outputs for entry in output.logprobs]
    assert len(entries) == outputs[-1].usage.completion_tokens
    assert any(entry.token_id not in dict(entry.top) for entry in entries)


async def test_choices_of_a_held_prompt_each_keep_the_form(make_service):
    service = await make_service("llama")
    request = chat_request(structured_output=PERSON, temperature=1.5, seed=3, max_tokens=200)

    async def read(stream):
        async with stream:
            return "".join([output.text_delta async for output in stream])

    streams = await service.start_chat_choices(request, 3)
    texts = await asyncio.gather(*(read(stream) for stream in streams))
    assert len(set(texts)) == 3
    assert all(set(json.loads(text)) == {"name", "age"} for text in texts)


async def test_a_schema_that_cannot_be_honoured_is_refused_before_the_stream(make_service):
    service = await make_service("llama")
    impossible = StructuredOutput.json_schema({"$ref": "#"})
    with pytest.raises(InvalidRequestError):
        await service.start_chat(chat_request(structured_output=impossible))
    assert (await answer(service, chat_request()))[1][-1].finish_reason
