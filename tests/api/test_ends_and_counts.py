"""How an answer ends and what it counts: the same whole and streamed, exact at the edges of the context."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.real_door import CHAT, TEXT, RealDoor, joined, user

pytestmark = pytest.mark.asyncio(loop_scope="module")
BOS, EOS = 256, 257
USAGE = {"stream_options": {"include_usage": True}}


async def both_ways(door: RealDoor, path: str, **body: Any) -> dict[str, Any]:
    """The whole answer; its stream must have the same text, end and counts."""
    whole = await door.ask(path, **body)
    chunks = await door.chunks(path, **body, **USAGE)
    choice = whole["choices"][0]
    assert joined(chunks) == (choice["text"] if "text" in choice else choice["message"]["content"])
    ends = [chunk["choices"][0]["finish_reason"] for chunk in chunks[:-1]]
    assert [end for end in ends if end] == [choice["finish_reason"]]
    counts = ("prompt_tokens", "completion_tokens", "total_tokens")
    assert [chunks[-1]["usage"][name] for name in counts] == [whole["usage"][name] for name in counts]
    assert len({(chunk["id"], chunk["created"], chunk["model"], chunk["system_fingerprint"]) for chunk in chunks}) == 1
    return whole


@pytest.mark.parametrize("max_tokens", [1, 5, 20])
async def test_the_length_limit_is_exact(door: RealDoor, max_tokens: int) -> None:
    body = {"model": "llama", "max_tokens": max_tokens, "ignore_eos": True}
    for path, prompt in ((CHAT, {"messages": user("Hello")}), (TEXT, {"prompt": "Hello"})):
        answer = await both_ways(door, path, **body, **prompt)
        assert answer["usage"]["completion_tokens"] == max_tokens
        assert answer["choices"][0]["finish_reason"] == "length"
        assert answer["usage"]["total_tokens"] == answer["usage"]["prompt_tokens"] + max_tokens


async def test_a_completion_without_a_length_has_sixteen_tokens(door: RealDoor) -> None:
    for fields in ({}, {"max_tokens": None}):
        answer = await both_ways(door, TEXT, model="llama", prompt="a", ignore_eos=True, **fields)
        assert answer["usage"]["completion_tokens"] == 16


async def test_a_chat_without_a_length_goes_on_to_its_end_or_the_context(door: RealDoor) -> None:
    ended = await both_ways(door, CHAT, model="echo", messages=user("Hi"))
    assert ended["choices"][0]["finish_reason"] == "stop"
    context = door.service.model("llama").context_length
    full = await both_ways(
        door, CHAT, model="llama", messages=user("a" * (context - 60)), ignore_eos=True, max_tokens=None
    )
    assert full["choices"][0]["finish_reason"] == "length"
    assert full["usage"]["total_tokens"] == context


async def test_an_end_token_is_counted_and_never_shown(door: RealDoor) -> None:
    forced = {"model": "llama", "logit_bias": {str(EOS): 100}}
    for path, prompt in ((CHAT, {"messages": user("Hello")}), (TEXT, {"prompt": "Hello"})):
        answer = await both_ways(door, path, **forced, **prompt)
        choice = answer["choices"][0]
        assert choice.get("text", choice.get("message", {}).get("content")) == ""
        assert (choice["finish_reason"], answer["usage"]["completion_tokens"]) == ("stop", 1)


async def test_an_ignored_end_is_counted_and_adds_nothing(door: RealDoor) -> None:
    forced = {"model": "llama", "logit_bias": {str(EOS): 100}, "ignore_eos": True, "max_tokens": 3}
    answer = await both_ways(door, CHAT, messages=user("Hello"), **forced, logprobs=True)
    choice = answer["choices"][0]
    assert (choice["message"]["content"], choice["logprobs"]["content"]) == ("", [])
    assert (choice["finish_reason"], answer["usage"]["completion_tokens"]) == ("length", 3)


@pytest.mark.parametrize("text", ["🙂" * 8, "日本 日本 日本", "👩‍👩‍👧 e\u0301", "\u2028\u2029\x85\r\n\x00"])
async def test_characters_of_several_tokens_are_streamed_whole(door: RealDoor, text: str) -> None:
    answer = await both_ways(door, TEXT, model="echo", prompt=text, max_tokens=100)
    assert answer["choices"][0]["text"] == text
    chunks = await door.chunks(TEXT, model="echo", prompt=text, max_tokens=100)
    assert "\ufffd" not in "".join(choice["text"] for chunk in chunks for choice in chunk["choices"])


async def test_the_text_is_that_of_all_ids_together(door: RealDoor) -> None:
    answer = await both_ways(
        door, TEXT, model="echo", prompt="日本の🙂テスト" * 4, max_tokens=200, return_token_ids=True
    )
    there = await door.ask("/detokenize", model="echo", tokens=answer["choices"][0]["token_ids"])
    assert there["content"] == answer["choices"][0]["text"]


async def test_an_empty_prompt_begins_at_bos(door: RealDoor) -> None:
    answer = await door.ask(TEXT, model="llama", prompt="", max_tokens=2, return_token_ids=True)
    assert answer["choices"][0]["prompt_token_ids"] == [BOS]


async def test_there_is_one_bos_in_chats_and_completions(door: RealDoor) -> None:
    chat = await door.ask(CHAT, model="llama", messages=user("Hi"), max_tokens=1, return_token_ids=True)
    text = await door.ask(TEXT, model="llama", prompt="Hi", max_tokens=1, return_token_ids=True)
    for ids in (chat["prompt_token_ids"], text["choices"][0]["prompt_token_ids"]):
        assert (ids[0], ids.count(BOS)) == (BOS, 1)


async def test_a_prompt_one_short_of_the_context_gets_one_token_and_the_full_context_none(door: RealDoor) -> None:
    context = door.service.model("llama").context_length
    fitting = await both_ways(door, TEXT, model="llama", prompt=[65] * (context - 1), max_tokens=1, ignore_eos=True)
    assert (fitting["usage"]["completion_tokens"], fitting["choices"][0]["finish_reason"]) == (1, "length")
    for length, max_tokens in ((context, 1), (context + 1, 1), (context - 1, 2)):
        error = await door.refuse(TEXT, model="llama", prompt=[65] * length, max_tokens=max_tokens)
        assert error["code"] == "context_length_exceeded"
        assert str(length) in error["message"] and str(context) in error["message"]


@pytest.mark.parametrize(("path", "prompt"), [(CHAT, {"messages": user("Hi")}), (TEXT, {"prompt": "Hi"})])
async def test_a_huge_max_tokens_is_refused_with_the_room_left(
    door: RealDoor, path: str, prompt: dict[str, Any]
) -> None:
    error = await door.refuse(path, model="llama", max_tokens=10**9, **prompt)
    assert (error["code"], error["param"]) == ("context_length_exceeded", "max_tokens")


async def test_a_developer_is_a_system(door: RealDoor) -> None:
    def ids(role: str) -> Any:
        return door.ask("/tokenize", messages=[{"role": role, "content": "Be kind"}, *user("Hi")])

    assert await ids("developer") == await ids("system")


async def test_a_chats_next_turn_begins_with_the_last_one_and_finds_it_in_the_cache(door: RealDoor) -> None:
    first = await door.ask(CHAT, model="echo", messages=user("abc"), max_tokens=4, return_token_ids=True)
    history = [*user("abc"), {"role": "assistant", "content": first["choices"][0]["message"]["content"]}, *user("d")]
    second = await door.ask(CHAT, model="echo", messages=history, max_tokens=4, return_token_ids=True)
    shared = first["prompt_token_ids"]
    assert second["prompt_token_ids"][: len(shared)] == shared
    assert second["usage"]["prompt_tokens_details"]["cached_tokens"] >= len(shared)
    bypassed = await door.ask(CHAT, model="echo", messages=history, max_tokens=4, cache_prompt=False)
    assert bypassed["usage"]["prompt_tokens_details"]["cached_tokens"] == 0


async def test_a_last_assistant_message_is_continued_only_when_asked(door: RealDoor) -> None:
    messages = [*user("Hi"), {"role": "assistant", "content": "Hel"}]
    new_turn = await door.ask(CHAT, model="echo", messages=messages, max_tokens=1, return_token_ids=True)
    going_on = await door.ask(
        CHAT, model="echo", messages=messages, max_tokens=1, return_token_ids=True, continue_final_message=True
    )
    assert bytes(going_on["prompt_token_ids"][1:]).endswith(b"assistant: Hel")
    assert bytes(new_turn["prompt_token_ids"][1:]).endswith(b"Hel\nassistant: ")


async def test_empty_messages_are_refused_before_the_model_is_looked_up(door: RealDoor) -> None:
    for stream in (False, True):
        assert (await door.refuse(CHAT, model="nope", messages=[], stream=stream))["param"] == "messages"
    assert (await door.ask(CHAT, model="llama", messages=user(""), max_tokens=1))["choices"]
