"""Two precisions answer one prompt; what goes wrong on one side leaves the other alone."""

import asyncio

import pytest

from myserve_ui.core.requests import ChatRequest
from myserve_ui.errors import ModelLoadError, ModelNotFoundError
from myserve_ui.serving.compare_service import CompareRequest, CompareService, Side, Timing
from tests.conftest import chat_request, load_tiny

BOTH = {"base": "llama", "candidate": "gpt2"}


async def run(service, chat: ChatRequest, **fields):
    request = CompareRequest(chat, **{**BOTH, **fields})
    return [update async for update in CompareService(service).compare(request)]


async def alone(service, model, **params):
    async with await service.start_chat(chat_request(model=model, **params)) as stream:
        return "".join([output.text_delta async for output in stream])


@pytest.mark.parametrize("timing", Timing)
async def test_both_sides_say_what_they_say_alone(make_service, timing):
    service = await make_service("llama", "gpt2")
    updates = await run(service, chat_request(max_tokens=20), timing=timing)
    texts = {side.value: answer.text for side, answer in updates[-1].answers.items()}
    assert texts == {
        "base": await alone(service, "llama", max_tokens=20),
        "candidate": await alone(service, "gpt2", max_tokens=20),
    }
    assert all(answer.is_done for answer in updates[-1].answers.values())


async def test_in_turn_the_second_begins_when_the_first_is_done(make_service):
    service = await make_service("llama", "gpt2")
    updates = await run(service, chat_request(max_tokens=10, ignore_eos=True), timing=Timing.IN_TURN)
    changed = [update.changed for update in updates if update.changed]
    assert changed == sorted(changed, key=list(Side).index)


async def test_together_both_grow_at_the_same_time(make_service):
    service = await make_service("llama", "gpt2")
    updates = await run(service, chat_request(max_tokens=60, ignore_eos=True), timing=Timing.TOGETHER)
    assert any(
        0 < len(a.token_ids) < 60 and 0 < len(b.token_ids) < 60 for a, b in (u.answers.values() for u in updates)
    )


async def test_without_a_seed_both_sides_still_draw_alike(make_service):
    service = await make_service("llama")
    updates = await run(service, chat_request(temperature=1.3, max_tokens=20), candidate="llama")
    assert len({answer.text for answer in updates[-1].answers.values()}) == 1


async def test_a_side_that_cannot_load_says_why_and_the_other_answers(make_service):
    def load(entry, on_progress):
        if entry.key == "gpt2":
            raise ModelLoadError("not possible here")
        return load_tiny(entry)

    service = await make_service("llama", "gpt2", load=load)
    updates = await run(service, chat_request())
    assert updates[-1].answers[Side.CANDIDATE].error == "not possible here"
    assert updates[-1].answers[Side.BASE].text


async def test_a_step_that_fails_on_one_side_leaves_the_other_running(make_service):
    service = await make_service("llama", "gpt2")
    async for _progress in service.load("gpt2"):
        pass
    runner = service._pool.engine("gpt2").worker._engine.runner

    def fail(batch):
        raise RuntimeError("boom")

    runner.forward = fail
    updates = await run(service, chat_request(max_tokens=20), timing=Timing.TOGETHER)
    assert "failed" in updates[-1].answers[Side.CANDIDATE].error
    assert updates[-1].answers[Side.BASE].latest.finish_reason


async def test_a_prompt_over_the_context_is_told_on_both_sides(make_service):
    service = await make_service("llama", "gpt2")
    updates = await run(service, chat_request("x" * 600))
    assert all("512" in answer.error for answer in updates[-1].answers.values())


async def test_leaving_ends_both(make_service):
    service = await make_service("llama", "gpt2")
    stream = CompareService(service).compare(
        CompareRequest(chat_request(max_tokens=400, ignore_eos=True), **BOTH, timing=Timing.TOGETHER)
    )
    async for update in stream:
        if all(answer.token_ids for answer in update.answers.values()):
            break
    await stream.aclose()
    async with asyncio.timeout(5):
        while any(engine.num_running for engine in service.status().engines):
            await asyncio.sleep(0.005)


async def test_an_unknown_model_is_refused_before_anything_runs(make_service):
    service = await make_service("llama")
    with pytest.raises(ModelNotFoundError):
        await run(service, chat_request(), candidate="nothing")
