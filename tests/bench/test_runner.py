"""A scripted server gives back its own delays; whatever goes wrong is counted and stays out of the latencies."""

import asyncio

import httpx2
import pytest

from myserve_ui.bench.client.chat_stream import NO_USAGE
from myserve_ui.bench.client.client import Target
from myserve_ui.bench.client.records import Outcome
from myserve_ui.bench.loads import ClosedLoop, OpenLoop, Ramp
from myserve_ui.bench.runner import RunPlan, run_benchmark
from myserve_ui.bench.summary import summarise
from myserve_ui.bench.workload import Lengths, Workload
from myserve_ui.errors import InvalidRequestError
from tests.bench.scripted_server import Script, ScriptedServer

TARGET = Target("http://scripted/v1", "m", api_key="k")


def now():
    return asyncio.get_running_loop().time()


async def run(script, load=ClosedLoop(2), *, requests=6, tokens=8, warm_up=False, **plan):  # noqa: B008
    server = ScriptedServer(script)
    workload = Workload(requests, output_tokens=Lengths(tokens, tokens))
    progress = [
        step
        async for step in run_benchmark(
            RunPlan(TARGET, workload, load, warm_up=warm_up, **plan), transport=server, clock=now
        )
    ]
    return server, progress


async def last_step(plan, server):
    return [step async for step in run_benchmark(plan, transport=server, clock=now)][-1]


def outcomes(progress):
    return [record.outcome for record in progress[-1].records]


async def test_delays_come_back():
    _, progress = await run(Script(first=0.08, gap=0.02))
    for record in progress[-1].records:
        assert record.ttft == pytest.approx(0.08)
        assert record.tpot == pytest.approx(0.02)
        assert [gap for gap, number in record.token_gaps for _ in range(number)] == pytest.approx([0.02] * 7)


async def test_the_role_chunk_is_no_token():
    _, progress = await run(Script(first=0.1), requests=1)
    assert progress[-1].records[0].ttft == pytest.approx(0.1)


@pytest.mark.parametrize("tokens_per_chunk", [1, 4])
async def test_tokens_are_counted_by_usage_whatever_a_chunk_holds(tokens_per_chunk):
    _, progress = await run(Script(tokens_per_chunk=tokens_per_chunk))
    row = summarise(progress[-1].records)
    assert (row.output_tokens, row.prompt_tokens, row.itl_ms.n) == (48, 42, 42)


@pytest.mark.parametrize("concurrency", [1, 3, 50])
async def test_so_many_are_open_at_once_and_never_more(concurrency):
    server, progress = await run(Script(first=0.01), ClosedLoop(concurrency), requests=9)
    assert server.most_open == min(concurrency, 9)
    assert outcomes(progress) == [Outcome.COMPLETED] * 9


async def test_an_open_loop_waits_for_nobody():
    server, progress = await run(Script(first=0.3), OpenLoop(rate=200.0), requests=20)
    assert server.most_open > 10
    assert len(progress[-1].records) == 20


async def test_the_warm_up_is_asked_other_prompts_and_not_counted():
    server, progress = await run(Script(), ClosedLoop(4), warm_up=True)
    assert len(server.bodies) == 4 + 6
    assert len(progress[-1].records) == 6
    contents = [body["messages"][0]["content"] for body in server.bodies]
    assert not set(contents[:4]) & set(contents[4:])


async def test_the_cache_of_answers_is_bypassed_and_the_length_is_fixed():
    server, _ = await run(Script(), requests=1)
    assert server.headers[0]["cache-control"] == "no-store"
    assert server.headers[0]["authorization"] == "Bearer k"
    assert server.bodies[0]["ignore_eos"] is True


async def test_equal_seeds_ask_alike():
    first, second = [(await run(Script()))[0].bodies for _ in range(2)]
    key = [sorted(body["messages"][0]["content"] for body in bodies) for bodies in (first, second)]
    assert key[0] == key[1]


async def test_a_third_of_errors_is_counted_and_in_no_latency():
    _, progress = await run(Script(first=0.02, status_of=lambda number: 500 if number % 3 == 0 else 200), requests=9)
    row = summarise(progress[-1].records)
    assert (row.completed, row.failed, row.ttft_ms.n) == (6, 3, 6)
    assert row.errors == {"HTTP 500: scripted 500": 3}


@pytest.mark.parametrize(("status", "name"), [(429, "rejected"), (503, "rejected"), (401, "failed"), (404, "failed")])
async def test_a_refusal_is_a_count_and_a_sentence(status, name):
    _, progress = await run(Script(status_of=lambda _: status))
    row = summarise(progress[-1].records)
    assert getattr(row, name) == 6
    assert list(row.errors) == [f"HTTP {status}: scripted {status}"]


async def test_a_stream_without_usage_is_a_failure():
    _, progress = await run(Script(usage=False))
    assert set(outcomes(progress)) == {Outcome.FAILED}
    assert progress[-1].records[0].error == NO_USAGE


async def test_a_dropped_connection_is_a_failure():
    _, progress = await run(Script(break_after=2))
    assert set(outcomes(progress)) == {Outcome.FAILED}
    assert "broke off" in progress[-1].records[0].error


async def test_a_server_that_is_not_there():
    class Nowhere(httpx2.AsyncBaseTransport):
        async def handle_async_request(self, request):
            raise httpx2.ConnectError("no")

    plan = RunPlan(TARGET, Workload(3), ClosedLoop(1), warm_up=False)
    progress = [step async for step in run_benchmark(plan, transport=Nowhere(), clock=now)]
    assert progress[-1].records[0].error == "the server cannot be reached"


@pytest.mark.parametrize("load", [ClosedLoop(2), OpenLoop(rate=50.0)])
async def test_the_time_limit_ends_a_run_and_the_counts_add_up(load):
    server, progress = await run(Script(first=5.0), load, requests=10, time_limit=0.1)
    assert outcomes(progress) == [Outcome.CANCELLED] * 10
    assert server.open == 0


async def test_leaving_cancels_what_is_on_its_way():
    server = ScriptedServer(Script(first=5.0))
    steps = run_benchmark(RunPlan(TARGET, Workload(4), ClosedLoop(4), warm_up=False), transport=server, clock=now)
    await anext(steps)
    await asyncio.sleep(0.05)
    assert server.open == 4
    await steps.aclose()
    assert server.open == 0


async def test_progress_counts_up_while_requests_end():
    _, progress = await run(Script(first=0.4), ClosedLoop(1), requests=3)
    assert [step.done for step in progress] == sorted(step.done for step in progress)
    assert {0, 1, 2, 3} >= {step.done for step in progress} > {0, 3}


async def test_a_ramp_opens_more_as_it_climbs():
    open_at = []
    script = Script(first=0.1)
    server = ScriptedServer(script)
    script.status_of = lambda _number: open_at.append(server.open) or 200
    await last_step(RunPlan(TARGET, Workload(12), Ramp((ClosedLoop(1), ClosedLoop(4))), warm_up=False), server)
    assert max(open_at[:6]) == 0
    assert max(open_at[6:]) == 3


async def test_later_turns_carry_what_was_really_answered():
    server = ScriptedServer(Script(first=0.01))
    workload = Workload(6, output_tokens=Lengths(3, 3), turns=3, shared_prefix_tokens=5)
    async for _step in run_benchmark(
        RunPlan(TARGET, workload, ClosedLoop(1), warm_up=False), transport=server, clock=now
    ):
        pass
    conversations = [[body["messages"] for body in server.bodies[first : first + 3]] for first in (0, 3)]
    for first, second, third in conversations:
        assert [message["role"] for message in third] == ["user", "assistant", "user", "assistant", "user"]
        assert second[: len(first)] == first and third[: len(second)] == second
        assert second[1]["content"] == "xxx"
    beginnings = {" ".join(turns[0][0]["content"].split()[:5]) for turns in conversations}
    assert len(beginnings) == 1


async def test_so_many_conversations_go_on_at_once():
    server = ScriptedServer(Script(first=0.01))
    plan = RunPlan(TARGET, Workload(12, turns=3), ClosedLoop(2), warm_up=False)
    step = await last_step(plan, server)
    assert server.most_open == 2
    assert [record.index for record in step.records] == list(range(12))


async def test_a_turn_that_fails_ends_its_conversation_alone():
    server = ScriptedServer(Script(status_of=lambda number: 500 if number == 1 else 200))
    plan = RunPlan(TARGET, Workload(6, turns=3), ClosedLoop(1), warm_up=False)
    step = await last_step(plan, server)
    assert [record.outcome.value for record in step.records] == ["completed", "failed", "cancelled", *["completed"] * 3]


@pytest.mark.parametrize(
    "data",
    ["{}", "[]", "5", '{"choices": 5}', '{"choices": [null]}', '{"usage": [1]}', '{"usage": {"prompt_tokens": "x"}}'],
)
async def test_a_stream_of_another_shape_is_a_failure_or_no_tokens(data):
    class Foreign(httpx2.AsyncBaseTransport):
        async def handle_async_request(self, request):
            return httpx2.Response(200, text=f"data: {data}\n\n")

    plan = RunPlan(TARGET, Workload(1), ClosedLoop(1), warm_up=False)
    step = await last_step(plan, Foreign())
    assert step.records[0].outcome is Outcome.FAILED
    assert "stream" in step.records[0].error


@pytest.mark.parametrize("url", ["banana", "ftp://x", "http://", "http://[", "file:///etc/passwd", "http://x:99999"])
def test_what_is_no_url_is_refused_before_anything_is_sent(url):
    with pytest.raises(InvalidRequestError, match="URL"):
        Target(url, "m")
