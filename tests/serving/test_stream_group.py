"""Several streams read as one: each output with its index, none lost, all closed together."""

import asyncio

from myserve_ui.core.outputs import FinishReason
from myserve_ui.serving.request_stream import StreamGroup
from tests.conftest import chat_request


async def open_group(service, n, **params):
    return StreamGroup(await service.start_chat_choices(chat_request("choose", temperature=1.2, **params), n))


async def test_outputs_of_all_streams_come_with_their_index(make_service):
    service = await make_service("llama")
    texts, ends = ["", "", ""], {}
    async with await open_group(service, 3, seed=5, max_tokens=30) as group:
        async for index, output in group.outputs():
            texts[index] += output.text_delta
            if output.finish_reason:
                assert index not in ends
                ends[index] = output.finish_reason
    assert set(ends) == {0, 1, 2}
    async with await open_group(service, 3, seed=5, max_tokens=30) as group:
        expected = ["".join([output.text_delta async for output in stream]) for stream in group.streams]
    assert texts == expected


async def test_leaving_early_aborts_every_stream_and_leaves_no_task(make_service):
    service = await make_service("echo")
    tasks = asyncio.all_tasks()
    async with await open_group(service, 4, max_tokens=4000, ignore_eos=True) as group:
        outputs = group.outputs()
        await anext(outputs)
        await outputs.aclose()
    async with asyncio.timeout(5):
        while service.status().engines[0].num_running:
            await asyncio.sleep(0.005)
    assert asyncio.all_tasks() == tasks
    assert [output.finish_reason async for _, output in group.outputs()] == []


async def test_one_stream_is_read_as_it_is(make_service):
    service = await make_service("llama")
    async with await open_group(service, 1, max_tokens=5, ignore_eos=True) as group:
        outputs = [pair async for pair in group.outputs()]
    assert {index for index, _ in outputs} == {0}
    assert outputs[-1][1].finish_reason is FinishReason.LENGTH
