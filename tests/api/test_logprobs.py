"""Log-probabilities: the model's own, finite, in both shapes, streamed and whole, beside the text they belong to."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.api.real_door import CHAT, TEXT, RealDoor, joined, user

pytestmark = pytest.mark.asyncio(loop_scope="module")
EMOJI = "日本 🙂 👩‍👩‍👧 <b>"


async def chat_entries(door: RealDoor, **body: Any) -> list[dict[str, Any]]:
    answer = await door.ask(CHAT, **{"model": "llama", "messages": user("Hello"), "logprobs": True, **body})
    return answer["choices"][0]["logprobs"]["content"]


def content_bytes(entries: list[dict[str, Any]]) -> bytes:
    return b"".join(bytes(entry["bytes"]) for entry in entries)


async def test_the_bytes_of_the_entries_are_the_content(door: RealDoor) -> None:
    answer = await door.ask(CHAT, model="echo", messages=user(EMOJI), logprobs=True, max_tokens=200)
    choice = answer["choices"][0]
    assert EMOJI in choice["message"]["content"]
    assert choice["finish_reason"] == "stop"
    assert content_bytes(choice["logprobs"]["content"]).decode() == choice["message"]["content"]


async def test_streamed_entries_are_those_of_the_whole_answer_each_beside_its_text(door: RealDoor) -> None:
    body = {"model": "echo", "messages": user(EMOJI), "logprobs": True, "top_logprobs": 2, "max_tokens": 200}
    whole = await door.ask(CHAT, **body)
    chunks = await door.chunks(CHAT, **body)
    entries = []
    for choice in (chunk["choices"][0] for chunk in chunks):
        here = choice["logprobs"]["content"] if choice["logprobs"] else []
        assert content_bytes(here).decode() == choice["delta"].get("content", "")
        entries += here
    assert entries == whole["choices"][0]["logprobs"]["content"]


async def test_text_cut_by_a_stop_string_cuts_the_entries_too(door: RealDoor) -> None:
    for stop in ("mid", " m", "i"):
        body = {"model": "echo", "messages": user("begin middle end"), "logprobs": True, "stop": [stop]}
        choice = (await door.ask(CHAT, **body))["choices"][0]
        assert content_bytes(choice["logprobs"]["content"]).decode() == choice["message"]["content"]
        assert joined(await door.chunks(CHAT, **body)) == choice["message"]["content"]
        assert choice["stop_reason"] == stop


async def test_a_stop_token_is_in_no_entry(door: RealDoor) -> None:
    body = {"model": "echo", "messages": user("abc"), "logprobs": True, "stop_token_ids": [ord("b")]}
    choice = (await door.ask(CHAT, **body))["choices"][0]
    assert content_bytes(choice["logprobs"]["content"]).decode() == choice["message"]["content"] == "user: a"
    assert choice["stop_reason"] == ord("b")


async def test_the_greedy_token_is_the_first_of_the_likeliest_and_the_sum_is_at_most_one(door: RealDoor) -> None:
    entries = await chat_entries(door, top_logprobs=20, max_tokens=12, ignore_eos=True)
    assert entries
    for entry in entries:
        top = entry["top_logprobs"]
        assert len(top) == 20
        assert (top[0]["bytes"], top[0]["logprob"]) == (entry["bytes"], entry["logprob"])
        assert [one["logprob"] for one in top] == sorted((one["logprob"] for one in top), reverse=True)
        assert sum(math.exp(one["logprob"]) for one in top) <= 1.001


async def test_no_logprobs_are_null_and_none_of_the_likeliest_is_an_empty_list(door: RealDoor) -> None:
    body = {"model": "echo", "messages": user("Hello"), "max_tokens": 3}
    for fields in ({}, {"logprobs": False}, {"logprobs": None, "top_logprobs": 0}):
        assert (await door.ask(CHAT, **body, **fields))["choices"][0]["logprobs"] is None
    entries = (await door.ask(CHAT, **body, logprobs=True, top_logprobs=0))["choices"][0]["logprobs"]["content"]
    assert [entry["top_logprobs"] for entry in entries] == [[]] * len(entries)


@pytest.mark.parametrize("fields", [{"temperature": 0.5, "seed": 1}, {"temperature": 2, "seed": 2}, {"top_k": 1}])
async def test_logprobs_are_the_models_own_whatever_the_temperature(door: RealDoor, fields: dict[str, Any]) -> None:
    forced = {"max_tokens": 1, "logit_bias": {str(ord("k")): 100}, "top_logprobs": 3, "cache_prompt": False}
    greedy = await chat_entries(door, **forced)
    assert greedy[0]["token"] == "k"
    assert greedy[0]["logprob"] < 0
    assert await chat_entries(door, **forced, **fields) == greedy


async def test_penalties_and_bias_change_the_choice_and_not_the_logprobs(door: RealDoor) -> None:
    body = {"model": "llama", "prompt": "lantern " * 30, "max_tokens": 1, "logprobs": 5, "cache_prompt": False}
    plain = await door.ask(TEXT, **body)
    likeliest = plain["choices"][0]["logprobs"]["tokens"][0]
    penalised = await door.ask(TEXT, **body, presence_penalty=2, frequency_penalty=2)
    assert penalised["choices"] == plain["choices"]
    ids = (await door.ask(TEXT, **body, return_token_ids=True))["choices"][0]["token_ids"]
    biased = await door.ask(TEXT, **body, logit_bias={str(ids[0]): -100})
    top = biased["choices"][0]["logprobs"]["top_logprobs"][0]
    assert biased["choices"][0]["logprobs"]["tokens"][0] != likeliest
    assert top[likeliest] == plain["choices"][0]["logprobs"]["token_logprobs"][0]


async def test_every_number_is_finite_when_tokens_are_forbidden(door: RealDoor) -> None:
    forbidden = {str(token_id): -100 for token_id in range(0, 256, 2)}
    for fields in ({"logit_bias": forbidden}, {"top_k": 1, "temperature": 1}):
        answer = await door.ask(TEXT, model="llama", prompt="ab", max_tokens=5, logprobs=5, **fields)
        columns = answer["choices"][0]["logprobs"]
        numbers = [number for top in columns["top_logprobs"] for number in top.values()] + columns["token_logprobs"]
        assert all(-9999 <= number <= 0 for number in numbers)


async def test_the_columns_of_a_text_completion_have_a_place_for_every_token(door: RealDoor) -> None:
    answer = await door.ask(TEXT, model="echo", prompt="a🙂b", max_tokens=40, logprobs=2)
    choice = answer["choices"][0]
    columns = choice["logprobs"]
    assert choice["text"] == "a🙂b"
    assert columns["tokens"] == [
        *("<bos>", "a", r"bytes:\xf0", r"bytes:\x9f", r"bytes:\x99", r"bytes:\x82", "b", "<eos>")
    ]
    assert len({len(column) for column in columns.values()} | {answer["usage"]["completion_tokens"]}) == 1
    assert columns["text_offset"] == [0, 0, 1, 1, 1, 1, 2, 3]


async def test_the_chosen_token_is_in_its_map_even_if_it_is_not_likely(door: RealDoor) -> None:
    answer = await door.ask(TEXT, model="llama", prompt="ab", max_tokens=40, logprobs=1, temperature=2, seed=5)
    columns = answer["choices"][0]["logprobs"]
    sizes = {len(top) for top in columns["top_logprobs"]}
    assert sizes == {1, 2}
    for token, logprob, top in zip(columns["tokens"], columns["token_logprobs"], columns["top_logprobs"], strict=True):
        assert top[token] == logprob


async def test_streamed_columns_are_those_of_the_whole_answer(door: RealDoor) -> None:
    body = {"model": "llama", "prompt": "ab", "max_tokens": 20, "logprobs": 2, "echo": True, "n": 2, "seed": 4}
    whole = await door.ask(TEXT, **body, temperature=1)
    chunks = await door.chunks(TEXT, **body, temperature=1)
    for index in range(2):
        expected = whole["choices"][index]["logprobs"]
        columns: dict[str, list[Any]] = {name: [] for name in expected}
        for choice in (chunk["choices"][0] for chunk in chunks):
            if choice["index"] == index and choice["logprobs"]:
                for name, column in choice["logprobs"].items():
                    columns[name] += column
        assert columns["tokens"] == expected["tokens"]
        assert columns["text_offset"] == expected["text_offset"]
        assert columns["token_logprobs"][1:] == pytest.approx(expected["token_logprobs"][1:], abs=1e-4)
        assert [top and list(top) for top in columns["top_logprobs"]] == [
            top and list(top) for top in expected["top_logprobs"]
        ]
        assert joined(chunks, index) == whole["choices"][index]["text"]


async def test_the_official_client_reads_both_shapes(door: RealDoor) -> None:
    chat = await door.sdk.chat.completions.create(
        model="llama", messages=user("Hello"), logprobs=True, top_logprobs=2, max_tokens=3, temperature=0
    )
    assert all(len(entry.top_logprobs) == 2 for entry in chat.choices[0].logprobs.content)
    text = await door.sdk.completions.create(model="llama", prompt="Hi", logprobs=2, max_tokens=3, temperature=0)
    assert len(text.choices[0].logprobs.token_logprobs) == text.usage.completion_tokens
