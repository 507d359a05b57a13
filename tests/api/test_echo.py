"""Echo and scoring: the text begins with the prompt, and the prompt's own log-probabilities can be had."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.real_door import TEXT, RealDoor, joined

pytestmark = pytest.mark.asyncio(loop_scope="module")
PROMPTS = ["Hello", " leading space", "trailing \n", "日本 🙂\u0301", "\x00\uffff\u2028", "<|im_end|>", "a" * 200]


@pytest.mark.parametrize("max_tokens", [0, 1, 5])
@pytest.mark.parametrize("prompt", PROMPTS)
async def test_the_text_begins_with_the_prompt_byte_for_byte(door: RealDoor, prompt: str, max_tokens: int) -> None:
    forced = {str(ord("z")): 100}
    body = {"model": "llama", "prompt": prompt, "max_tokens": max_tokens, "echo": True, "logit_bias": forced}
    whole = await door.ask(TEXT, **body)
    text = whole["choices"][0]["text"]
    assert text == prompt + "z" * max_tokens
    assert whole["usage"]["completion_tokens"] == max_tokens
    assert whole["choices"][0]["finish_reason"] == "length"
    assert joined(await door.chunks(TEXT, **body)) == text


async def test_what_is_echoed_and_what_is_generated_fit_together(door: RealDoor) -> None:
    body = {"model": "llama", "prompt": "One, two,", "max_tokens": 20}
    alone = await door.ask(TEXT, **body)
    echoed = await door.ask(TEXT, **body, echo=True)
    assert echoed["choices"][0]["text"] == "One, two," + alone["choices"][0]["text"]


async def test_a_stop_string_in_the_prompt_stops_nothing(door: RealDoor) -> None:
    body = {"model": "echo", "prompt": "one two", "max_tokens": 3, "echo": True, "stop": ["two"]}
    choice = (await door.ask(TEXT, **body))["choices"][0]
    assert (choice["text"], choice["finish_reason"]) == ("one twoon", "length")


async def test_a_prompt_of_ids_is_echoed_as_its_text(door: RealDoor) -> None:
    answer = await door.ask(TEXT, model="llama", prompt=[72, 105, 257], max_tokens=0, echo=True)
    assert answer["choices"][0]["text"] == "Hi"


async def scores(door: RealDoor, prompt: Any, **fields: Any) -> dict[str, Any]:
    answer = await door.ask(TEXT, model="llama", prompt=prompt, echo=True, **fields)
    return answer["choices"][0]["logprobs"]


async def test_scoring_tells_every_token_of_the_prompt_but_the_first(door: RealDoor) -> None:
    columns = await scores(door, "日a", max_tokens=0, logprobs=3)
    assert columns["tokens"] == ["<bos>", r"bytes:\xe6", r"bytes:\x97", r"bytes:\xa5", "a"]
    assert columns["text_offset"] == [0, 0, 0, 0, 1]
    assert (columns["token_logprobs"][0], columns["top_logprobs"][0]) == (None, None)
    assert all(logprob < 0 for logprob in columns["token_logprobs"][1:])
    assert all(3 <= len(top) <= 4 for top in columns["top_logprobs"][1:])


async def test_scores_are_what_generating_the_same_tokens_says(door: RealDoor) -> None:
    prompt, forced = [65, 66], ord("z")
    generated = await door.ask(
        TEXT, model="llama", prompt=prompt, max_tokens=1, logprobs=0, logit_bias={str(forced): 100}
    )
    scored = await scores(door, [*prompt, forced], max_tokens=0, logprobs=0)
    expected = generated["choices"][0]["logprobs"]["token_logprobs"][0]
    assert scored["token_logprobs"][-1] == pytest.approx(expected, abs=1e-4)


async def test_a_cached_prompt_is_scored_again(door: RealDoor) -> None:
    first, again = [await scores(door, "the same words again", max_tokens=0, logprobs=1) for _ in range(2)]
    assert first == again
    assert None not in again["token_logprobs"][1:]


async def test_scores_and_generation_share_one_text(door: RealDoor) -> None:
    columns = await scores(door, "ab", max_tokens=3, logprobs=1)
    assert len(columns["tokens"]) == 3 + 3
    assert columns["text_offset"][:4] == [0, 0, 1, 2]
    generated = await door.ask(TEXT, model="llama", prompt="ab", max_tokens=3, logprobs=1)
    own = generated["choices"][0]["logprobs"]
    assert columns["tokens"][3:] == own["tokens"]
    assert columns["token_logprobs"][3:] == pytest.approx(own["token_logprobs"], abs=1e-4)


async def test_several_prompts_and_choices_each_have_their_own_scores(door: RealDoor) -> None:
    body = {"model": "llama", "prompt": ["ab", "c"], "n": 2, "echo": True, "max_tokens": 1, "logprobs": 0}
    answer = await door.ask(TEXT, **body)
    columns = [choice["logprobs"] for choice in answer["choices"]]
    assert [column["tokens"][:-1] for column in columns] == [["<bos>", "a", "b"]] * 2 + [["<bos>", "c"]] * 2
    assert columns[0]["token_logprobs"][:-1] == columns[1]["token_logprobs"][:-1]
    assert [column["token_logprobs"][0] for column in columns] == [None] * 4


async def test_a_long_prompt_is_scored_in_pieces(door: RealDoor) -> None:
    prompt = [65 + n % 26 for n in range(400)]
    columns = await scores(door, prompt, max_tokens=1, logprobs=1)
    assert len(columns["token_logprobs"]) == 401
    assert columns["token_logprobs"].count(None) == 1


async def test_ids_are_told_on_request_whole_and_streamed(door: RealDoor) -> None:
    body = {"model": "echo", "prompt": ["Hi", "Yo"], "max_tokens": 20}
    assert "token_ids" not in (await door.ask(TEXT, **body))["choices"][0]
    whole = await door.ask(TEXT, **body, return_token_ids=True)
    bos, eos = 256, 257
    assert [choice["prompt_token_ids"] for choice in whole["choices"]] == [[bos, 72, 105], [bos, 89, 111]]
    assert [choice["token_ids"] for choice in whole["choices"]] == [[bos, 72, 105, eos], [bos, 89, 111, eos]]
    chunks = await door.chunks(TEXT, **body, return_token_ids=True)
    streamed: list[list[int]] = [[], []]
    for choice in (chunk["choices"][0] for chunk in chunks):
        streamed[choice["index"]] += choice["token_ids"]
    assert streamed == [choice["token_ids"] for choice in whole["choices"]]
