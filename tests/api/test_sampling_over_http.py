"""What each sampling parameter does to an answer, seen from outside: against the greedy text, or by force."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.api.real_door import CHAT, TEXT, RealDoor, user

pytestmark = pytest.mark.asyncio(loop_scope="module")
EOS = 257
FORCE_Z = {str(ord("z")): 100}


async def text_of(door: RealDoor, **fields: Any) -> str:
    body = {"model": "llama", "prompt": "One, two,", "max_tokens": 24, "ignore_eos": True, **fields}
    return (await door.ask(TEXT, **body))["choices"][0]["text"]


@pytest.mark.parametrize(
    "fields",
    [
        {"temperature": 1e-4},
        {"temperature": 1e-8},
        {"temperature": 2, "top_p": 0},
        {"temperature": 1, "top_p": 1e-4},
        {"temperature": 1, "top_k": 1},
        {"temperature": 1, "min_p": 1},
        {"presence_penalty": 0, "frequency_penalty": 0, "repetition_penalty": 1},
        {"presence_penalty": None, "logit_bias": {}},
        {"top_k": -1},
        {"top_k": 10**9},
        {"temperature": 0, "seed": -1},
    ],
    ids=str,
)
async def test_these_are_greedy(door: RealDoor, fields: dict[str, Any]) -> None:
    assert await text_of(door, **fields) == await text_of(door)


async def test_a_seed_repeats_and_another_seed_differs(door: RealDoor) -> None:
    texts = [await text_of(door, temperature=1, seed=seed) for seed in (1, 1, 2, -1, -1, 2**63 - 1)]
    assert (texts[0], texts[3]) == (texts[1], texts[4])
    assert len(set(texts)) == 4


async def test_an_absent_temperature_is_the_models_default_and_not_greedy(door: RealDoor) -> None:
    assert await text_of(door, temperature=None, seed=1) == await text_of(door, temperature=1, seed=1)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({}, "zzzzzz"),
        ({"presence_penalty": 2}, "zyzzzz"),
        ({"frequency_penalty": 2}, "zyzyzy"),
        ({"presence_penalty": -2}, "zzzzzz"),
    ],
)
async def test_penalties_count_the_tokens_of_the_answer(door: RealDoor, fields: dict[str, Any], text: str) -> None:
    biased = {"z": 60.5, "y": 59.5}
    bias = {str(ord(letter)): value for letter, value in biased.items()}
    assert await text_of(door, model="echo", max_tokens=6, logit_bias=bias, **fields) == text


@pytest.mark.parametrize("field", ["presence_penalty", "frequency_penalty"])
async def test_penalties_let_the_prompt_be(door: RealDoor, field: str) -> None:
    one_token = {"prompt": "lantern " * 30, "max_tokens": 1}
    assert await text_of(door, **one_token, **{field: 2}) == await text_of(door, **one_token)
    biased = {"prompt": "z" * 30, "max_tokens": 1, "logit_bias": {"122": 60, "121": 59}, "model": "echo"}
    assert await text_of(door, **biased, **{field: 2}) == "z"


async def ids_after(door: RealDoor, prompt: list[int], max_tokens: int, **fields: Any) -> list[int]:
    body = {"model": "llama", "prompt": prompt, "max_tokens": max_tokens, "ignore_eos": True, **fields}
    return (await door.ask(TEXT, **body, return_token_ids=True))["choices"][0]["token_ids"]


async def test_a_repetition_penalty_counts_the_prompt_too(door: RealDoor) -> None:
    greedy = await ids_after(door, [65], 100)
    first_repeat = next(place for place, token_id in enumerate(greedy) if token_id in greedy[:place])
    prompt, repeated = [65, *greedy[:first_repeat]], greedy[first_repeat]
    assert await ids_after(door, prompt, 1) == [repeated]
    assert await ids_after(door, prompt, 1, repetition_penalty=1e6) != [repeated]
    fresh = await ids_after(door, prompt, 20, repetition_penalty=1e6)
    assert len(set(fresh) - set(prompt)) == 20


async def test_a_bias_forces_and_forbids(door: RealDoor) -> None:
    assert await text_of(door, logit_bias=FORCE_Z) == "z" * 24
    assert await text_of(door, logit_bias=FORCE_Z, temperature=2, seed=3) == "z" * 24
    ends = {str(EOS): -100}
    forbidden = await door.ask(TEXT, model="echo", prompt="ab", max_tokens=9, logit_bias=ends)
    assert forbidden["choices"][0]["finish_reason"] == "length"


async def test_a_bias_against_every_token_breaks_nothing(door: RealDoor) -> None:
    everything = {str(token_id): -100 for token_id in range(320)}
    assert await text_of(door, logit_bias=everything) == await text_of(door)
    sampled = {"temperature": 1, "seed": 1}
    assert len(await text_of(door, logit_bias=everything, **sampled)) > 0


async def test_a_bias_outside_the_vocabulary_is_refused_with_the_id(door: RealDoor) -> None:
    error = await door.refuse(TEXT, model="llama", prompt="a", logit_bias={"320": 1})
    assert error["param"] == "logit_bias"
    assert "320" in error["message"]


async def test_min_tokens_puts_the_end_off_and_the_default_length_makes_room(door: RealDoor) -> None:
    forced = {"model": "llama", "prompt": "a", "logit_bias": {str(EOS): 100}}
    assert (await door.ask(TEXT, **forced))["usage"]["completion_tokens"] == 1
    assert (await door.ask(TEXT, **forced, min_tokens=5))["usage"]["completion_tokens"] == 6
    assert (await door.ask(TEXT, **forced, min_tokens=30))["usage"]["completion_tokens"] == 30
    error = await door.refuse(TEXT, **forced, min_tokens=6, max_tokens=5)
    assert error["param"] == "min_tokens"


async def test_neighbours_do_not_change_an_answer(door: RealDoor) -> None:
    async def ask(number: int) -> str:
        fields = {"temperature": number % 3, "seed": number, "presence_penalty": number % 2, "max_tokens": 8 + number}
        body = {"model": "llama", "messages": user(f"The code word is {number}. " * (1 + number % 5)), **fields}
        return (await door.ask(CHAT, **body))["choices"][0]["message"]["content"]

    alone = [await ask(number) for number in range(12)]
    assert await asyncio.gather(*map(ask, range(12))) == alone
    assert len(set(alone)) > 6


async def test_a_long_prompt_that_joins_a_running_answer_changes_neither(door: RealDoor) -> None:
    short = {"prompt": "short", "max_tokens": 30}
    long = {"prompt": "long " * 80, "max_tokens": 4}
    alone = [await text_of(door, **short), await text_of(door, **long)]
    for _ in range(5):
        assert await asyncio.gather(text_of(door, **short), text_of(door, **long)) == alone
