"""What a stop string leaves is a pure function of the text without it: whole and streamed, nothing lost."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.real_door import CHAT, TEXT, RealDoor, joined, user

pytestmark = pytest.mark.asyncio(loop_scope="module")
PROMPT = "begin\nmiddle middle 日本 end"
"""What the echo says without a stop string."""


async def ask(door: RealDoor, stop: Any, **fields: Any) -> dict[str, Any]:
    """The choice with `stop`; its stream must say the same."""
    body = {"model": "echo", "prompt": PROMPT, "max_tokens": 60, "stop": stop, **fields}
    choice = (await door.ask(TEXT, **body))["choices"][0]
    chunks = await door.chunks(TEXT, **body)
    assert joined(chunks) == choice["text"]
    ends = [chunk["choices"][0]["finish_reason"] for chunk in chunks if chunk["choices"][0]["finish_reason"]]
    assert ends == [choice["finish_reason"]]
    return choice


@pytest.mark.parametrize("stop", ["middle", "\n", "日", "本 e", " ", "d", "b", PROMPT, "n\nm", "end"])
async def test_the_text_ends_before_the_first_match(door: RealDoor, stop: str) -> None:
    choice = await ask(door, stop)
    assert choice["text"] == PROMPT[: PROMPT.index(stop)]
    assert (choice["finish_reason"], choice["stop_reason"]) == ("stop", stop)


@pytest.mark.parametrize("stop", ["zzqq", "end!", "日本 enx", ["middle m!", "nope"], PROMPT + "!"])
async def test_text_held_back_for_a_stop_that_never_comes_is_delivered(door: RealDoor, stop: Any) -> None:
    choice = await ask(door, stop)
    assert (choice["text"], choice["finish_reason"], choice["stop_reason"]) == (PROMPT, "stop", None)


@pytest.mark.parametrize("stop", [["middle", "middle m"], ["middle m", "middle"], ["x", "mid", "middle"], ["dd", "mi"]])
async def test_the_earliest_of_several_stops_wins(door: RealDoor, stop: list[str]) -> None:
    choice = await ask(door, stop)
    assert choice["text"] == PROMPT[: min(PROMPT.index(one) for one in stop if one in PROMPT)]


async def test_a_stop_that_is_complete_on_the_last_allowed_token_is_a_stop(door: RealDoor) -> None:
    tokens_to_stop = 1 + len("begin\nmi")  # BOS is echoed too
    assert (await ask(door, "mi", max_tokens=tokens_to_stop))["finish_reason"] == "stop"
    cut = await ask(door, "mi", max_tokens=tokens_to_stop - 1)
    assert (cut["text"], cut["finish_reason"]) == ("begin\nm", "length")


async def test_a_stop_string_counts_before_min_tokens_only_as_text(door: RealDoor) -> None:
    choice = await ask(door, "middle", min_tokens=14)
    assert choice["text"] == "begin\nmiddle "


async def test_a_stop_token_ends_the_answer_and_is_named(door: RealDoor) -> None:
    choice = await ask(door, None, stop_token_ids=[ord("m")])
    assert (choice["text"], choice["finish_reason"], choice["stop_reason"]) == ("begin\n", "stop", ord("m"))


async def test_chats_stop_by_the_same_rules(door: RealDoor) -> None:
    body = {"model": "echo", "messages": user(PROMPT), "stop": ["middle"], "max_tokens": 60}
    whole = await door.ask(CHAT, **body)
    assert whole["choices"][0]["message"]["content"] == "user: begin\n"
    assert joined(await door.chunks(CHAT, **body)) == "user: begin\n"
