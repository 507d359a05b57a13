"""The oracles agree with each other; the window batcher batches, cuts and fails as it says."""

from __future__ import annotations

import asyncio

import pytest

from benchmarks.rivals.window_batcher import WindowBatcher
from myserve_ui.models.baseline import cut_after_end, generate_padded_batch, generate_plainly, generate_without_cache
from myserve_ui.models.tiny import FAMILIES, build_tiny_model

PROMPTS = [list(b"Hello"), list(b"What is this, and why so long?"), list(b"x")]
NO_END: frozenset[int] = frozenset()


@pytest.mark.parametrize("family", FAMILIES)
def test_generate_gives_the_ids_of_the_loop_without_a_cache(family):
    model = build_tiny_model(family)
    prompt = PROMPTS[1]
    expected = generate_without_cache(model, prompt, max_tokens=16, end_token_ids=NO_END)
    assert generate_plainly(model, prompt, max_tokens=16, end_token_ids=NO_END) == expected


def test_an_end_token_is_the_last_id():
    model = build_tiny_model("llama")
    token_ids = generate_without_cache(model, PROMPTS[0], max_tokens=12, end_token_ids=NO_END)
    end = frozenset({token_ids[5]})
    expected = cut_after_end(token_ids, end)
    assert expected[-1] in end
    assert generate_without_cache(model, PROMPTS[0], max_tokens=12, end_token_ids=end) == expected
    assert generate_plainly(model, PROMPTS[0], max_tokens=12, end_token_ids=end) == expected


def test_a_padded_batch_gives_each_prompt_its_own_text():
    model = build_tiny_model("llama")
    alone = [generate_without_cache(model, prompt, max_tokens=12, end_token_ids=NO_END) for prompt in PROMPTS]
    assert generate_padded_batch(model, PROMPTS, max_tokens=12, end_token_ids=NO_END) == alone


async def _ask_together(batcher: WindowBatcher, lengths: list[int]) -> list[list[int]]:
    async with batcher:
        return await asyncio.gather(
            *(batcher.generate(PROMPTS[i % 3], max_tokens=length) for i, length in enumerate(lengths))
        )


def test_requests_of_one_window_share_a_batch_and_keep_their_own_length():
    model = build_tiny_model("llama")
    batcher = WindowBatcher(model, end_token_ids=NO_END, window=0.2)
    answers = asyncio.run(_ask_together(batcher, [4, 12, 8]))
    assert batcher.batch_sizes == [3]
    assert answers == [
        generate_without_cache(model, prompt, max_tokens=length, end_token_ids=NO_END)
        for prompt, length in zip(PROMPTS, [4, 12, 8], strict=True)
    ]


def test_a_batch_takes_no_more_than_its_bound():
    batcher = WindowBatcher(build_tiny_model("llama"), end_token_ids=NO_END, window=0.05, max_batch=2)
    asyncio.run(_ask_together(batcher, [2, 2, 2, 2, 2]))
    assert batcher.batch_sizes == [2, 2, 1]


def test_a_failing_batch_fails_its_requests_and_the_next_is_served():
    model = build_tiny_model("llama")

    async def story() -> list[int]:
        async with WindowBatcher(model, end_token_ids=NO_END) as batcher:
            with pytest.raises(IndexError):
                await batcher.generate([100_000], max_tokens=2)
            return await batcher.generate(PROMPTS[0], max_tokens=2)

    assert len(asyncio.run(story())) == 2
