"""Several answers to one request: in order, different, repeatable, counted right, and stopped together."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from tests.api.real_door import CHAT, PATIENCE, TEXT, RealDoor, joined, until, user

pytestmark = pytest.mark.asyncio(loop_scope="module")
SAMPLED = {"model": "llama", "messages": user("Tell me"), "n": 3, "temperature": 1.2, "seed": 7, "max_tokens": 40}


def contents(answer: dict) -> list[str]:
    assert [choice["index"] for choice in answer["choices"]] == list(range(len(answer["choices"])))
    return [choice["message"]["content"] for choice in answer["choices"]]


async def test_choices_of_one_seed_differ_and_repeat_in_the_same_order(door: RealDoor) -> None:
    first, again = [await door.ask(CHAT, **SAMPLED) for _ in range(2)]
    assert contents(first) == contents(again)
    assert len(set(contents(first))) == 3
    alone = await door.ask(CHAT, **{**SAMPLED, "n": 1})
    assert contents(alone) == contents(first)[:1]


async def test_a_prompt_counts_once_and_the_completions_add_up(door: RealDoor) -> None:
    answer = await door.ask(CHAT, **SAMPLED, ignore_eos=True)
    alone = await door.ask(CHAT, **{**SAMPLED, "n": 1}, ignore_eos=True)
    usage = answer["usage"]
    assert usage["prompt_tokens"] == alone["usage"]["prompt_tokens"]
    assert usage["completion_tokens"] == 3 * 40
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]


async def test_the_prompt_of_several_choices_is_computed_once(door: RealDoor) -> None:
    before = door.engine("llama").prefix_cache_hits
    prompt = [65 + n % 26 for n in range(100)]
    await door.ask(TEXT, model="llama", prompt=prompt, n=4, max_tokens=2, ignore_eos=True)
    assert door.engine("llama").prefix_cache_hits - before >= 3 * 99


async def test_streamed_choices_come_mixed_and_joined_equal_the_whole_ones(door: RealDoor) -> None:
    whole = await door.ask(CHAT, **SAMPLED)
    chunks = await door.chunks(CHAT, **SAMPLED, stream_options={"include_usage": True})
    assert [joined(chunks, index) for index in range(3)] == contents(whole)
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"]["completion_tokens"] == whole["usage"]["completion_tokens"]
    choices = [chunk["choices"][0] for chunk in chunks[:-1]]
    assert [choice["index"] for choice in choices if "role" in choice["delta"]] == [0, 1, 2]
    ends = Counter(choice["index"] for choice in choices if choice["finish_reason"])
    assert ends == {0: 1, 1: 1, 2: 1}
    texts = [choice["index"] for choice in choices if choice["delta"].get("content")]
    assert texts != sorted(texts)


async def test_several_prompts_answer_in_order_choice_by_choice(door: RealDoor) -> None:
    request = {"model": "llama", "temperature": 1.2, "seed": 3, "max_tokens": 12}
    alone = [await door.ask(TEXT, **request, prompt=prompt, n=2) for prompt in ("One", "Two words")]
    expected = [choice["text"] for answer in alone for choice in answer["choices"]]
    together = await door.ask(TEXT, **request, prompt=["One", "Two words"], n=2)
    assert [choice["index"] for choice in together["choices"]] == [0, 1, 2, 3]
    assert [choice["text"] for choice in together["choices"]] == expected
    for key in ("prompt_tokens", "completion_tokens", "total_tokens"):
        assert together["usage"][key] == sum(answer["usage"][key] for answer in alone)
    chunks = await door.chunks(TEXT, **request, prompt=["One", "Two words"], n=2)
    assert [joined(chunks, index) for index in range(4)] == expected


@pytest.mark.parametrize("prompt", ["AB", [65, 66], ["AB"], [[65, 66]]])
async def test_a_prompt_may_be_text_or_ids_alone_or_in_a_list(door: RealDoor, prompt: object) -> None:
    answer = await door.ask(TEXT, model="echo", prompt=prompt, max_tokens=3)
    assert "AB".startswith(answer["choices"][0]["text"]) and answer["choices"][0]["text"]


async def test_one_bad_prompt_refuses_all_of_them_by_its_place(door: RealDoor) -> None:
    error = await door.refuse(TEXT, model="llama", prompt=[[65], [66, 10**6]])
    assert error["param"] == "prompt[1]"
    context = door.service.model("llama").context_length
    error = await door.refuse(TEXT, model="llama", prompt=["a", "b", "x" * context])
    assert (error["param"], error["code"]) == ("prompt[2]", "context_length_exceeded")
    assert door.engine("llama").num_running == door.engine("llama").num_waiting == 0


@pytest.mark.parametrize("stream", [True, False])
async def test_leaving_stops_every_choice(door: RealDoor, stream: bool) -> None:
    body = {"model": "echo", "messages": user("Hi"), "n": 4, "ignore_eos": True, "max_tokens": 8000, "stream": stream}
    before = door.engine("echo").generation_tokens_total
    asking = asyncio.create_task(door.http.post(CHAT, json=body))
    await until(lambda: door.engine("echo").num_running == 4)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    await until(lambda: door.engine("echo").num_running == 0)
    assert door.engine("echo").generation_tokens_total - before < 4 * 8000


async def test_the_official_client_reads_choices_whole_and_streamed(door: RealDoor) -> None:
    whole = await door.sdk.chat.completions.create(**SAMPLED, timeout=PATIENCE)
    stream = await door.sdk.chat.completions.create(**SAMPLED, stream=True, timeout=PATIENCE)
    texts = ["", "", ""]
    async for chunk in stream:
        texts[chunk.choices[0].index] += chunk.choices[0].delta.content or ""
    assert texts == [choice.message.content for choice in whole.choices]
