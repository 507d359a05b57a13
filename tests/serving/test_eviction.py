"""Engines make way for others when memory is short: the one unused for longest, never one in use, never the default."""

import asyncio
from dataclasses import replace

import pytest

from myserve_ui.core.model_info import LoadState
from myserve_ui.errors import NotEnoughMemoryError
from myserve_ui.serving.engine_builder import EngineLimits
from myserve_ui.serving.engine_pool import EnginePool
from tests.conftest import catalog_of, chat_request, load_tiny

NAMES = ("llama", "gpt2", "qwen2", "phi")


def weigh(loaded):
    return replace(loaded, info=replace(loaded.info, weight_bytes=100))


async def loaded_names(pool):
    return [info.id for info in pool.models() if info.state is LoadState.READY]


async def load(pool, *names):
    for name in names:
        async for _progress in pool.load(name):
            pass


@pytest.fixture
async def pool():
    pool = EnginePool(catalog_of(*NAMES), lambda entry, _: weigh(load_tiny(entry)), EngineLimits(), weight_budget=200)
    yield pool
    await pool.shut_down()


async def test_the_one_unused_for_longest_makes_way_and_never_the_default(pool):
    await load(pool, "llama", "gpt2")
    assert await loaded_names(pool) == ["llama", "gpt2"]
    await load(pool, "qwen2")
    assert await loaded_names(pool) == ["llama", "qwen2"]


async def test_an_evicted_engine_loads_again_when_asked_for(pool):
    await load(pool, "llama", "gpt2", "qwen2", "gpt2")
    assert await loaded_names(pool) == ["llama", "gpt2"]


async def test_one_in_use_stays_although_the_budget_is_over(make_service, pool):
    service = await make_service(*NAMES, load=lambda entry, _: weigh(load_tiny(entry)))
    service._pool._weight_budget = 200
    await load(service._pool, "gpt2")
    async with await service.start_chat(chat_request(model="gpt2", max_tokens=450, ignore_eos=True)) as stream:
        await anext(stream)
        await load(service._pool, "qwen2")
        assert await loaded_names(service._pool) == ["llama", "gpt2", "qwen2"]


async def test_what_does_not_fit_is_tried_again_after_an_eviction():
    attempts = []

    def load_if_room(entry, _):
        attempts.append(entry.key)
        if entry.key == "phi" and len(attempts) < 5:
            raise NotEnoughMemoryError("too large beside the others")
        return load_tiny(entry)

    pool = EnginePool(catalog_of(*NAMES), load_if_room, EngineLimits())
    await load(pool, "llama", "gpt2", "qwen2", "phi")
    assert attempts == ["llama", "gpt2", "qwen2", "phi", "phi"]
    assert await loaded_names(pool) == ["llama", "qwen2", "phi"]
    await pool.shut_down()


async def test_what_fits_nowhere_says_so():
    def never(entry, _):
        if entry.key == "phi":
            raise NotEnoughMemoryError("needs 900 GiB")
        return load_tiny(entry)

    pool = EnginePool(catalog_of(*NAMES), never, EngineLimits())
    await load(pool, "llama", "gpt2")
    with pytest.raises(NotEnoughMemoryError, match="900 GiB"):
        await load(pool, "phi")
    assert await loaded_names(pool) == ["llama"]
    await pool.shut_down()


async def test_one_that_is_held_stays_between_two_requests(pool):
    await load(pool, "llama", "gpt2")
    with pool.hold("gpt2", "phi"):
        await load(pool, "qwen2", "phi")
        assert await loaded_names(pool) == ["llama", "gpt2", "phi"]
    await load(pool, "qwen2")
    assert await loaded_names(pool) == ["llama", "qwen2"]


async def test_an_answer_that_took_long_is_a_use_until_its_end(make_service):
    service = await make_service(*NAMES, load=lambda entry, _: weigh(load_tiny(entry)))
    await load(service._pool, "gpt2", "qwen2")
    async with await service.start_chat(chat_request(model="gpt2", max_tokens=60, ignore_eos=True)) as long:
        await anext(long)
        async with await service.start_chat(chat_request(model="qwen2", max_tokens=1)) as short:
            assert [output async for output in short]
        assert [output async for output in long]
    service._pool._weight_budget = 300
    await load(service._pool, "phi")
    assert await loaded_names(service._pool) == ["llama", "gpt2", "phi"]


async def test_under_eviction_after_eviction_no_stream_is_lost(make_service):
    """Two models answer at length while the others come and go; what they say is what they say alone."""
    service = await make_service(*NAMES, load=lambda entry, _: weigh(load_tiny(entry)))
    service._pool._weight_budget = 200
    asked = [chat_request(model=name, max_tokens=200, ignore_eos=True) for name in NAMES[:2]]

    async def answer(request):
        await load(service._pool, request.model)
        async with await service.start_chat(request) as stream:
            return [token_id async for output in stream for token_id in output.token_ids]

    alone = [await answer(request) for request in asked]
    answers = asyncio.gather(*map(answer, asked))
    await asyncio.sleep(0.05)
    loads = []
    while not answers.done():
        loads.append(("qwen2", "phi")[len(loads) % 2])
        await load(service._pool, loads[-1])
    assert await answers == alone
    assert len(loads) > 1
    await load(service._pool, "phi", "qwen2")
    assert await loaded_names(service._pool) == ["llama", "qwen2"]
