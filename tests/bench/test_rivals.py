"""Rounds in turn: everybody is asked the same, one at a time, and medians and ratios follow from the rounds."""

import asyncio

import httpx2
import pytest

from benchmarks.rivals.match import Contestant, Match, Scenario, run_match, summarise_rounds
from myserve_ui.bench.client.client import Target
from myserve_ui.bench.workload import Lengths
from tests.bench.made_runs import one_row_run
from tests.bench.scripted_server import Script, ScriptedServer

BUSY = Scenario("busy", 2, Lengths(8, 8), Lengths(4, 4), requests=4)
SHORT = Scenario("short", 1, Lengths(8, 8), Lengths(2, 2), requests=2)
ROUNDS = 3


class Street(httpx2.AsyncBaseTransport):
    """Several scripted servers, by host; notes who is asked, and whether two ever had work at once."""

    def __init__(self, **scripts):
        self.servers = {name: ScriptedServer(script) for name, script in scripts.items()}
        self.asked = []
        self.overlaps = 0

    async def handle_async_request(self, request):
        self.asked.append(request.url.host)
        others = [server for name, server in self.servers.items() if name != request.url.host]
        self.overlaps += sum(server.open for server in others)
        return await self.servers[request.url.host].handle_async_request(request)


def contestant(name, **fields):
    return Contestant(name, Target(f"http://{name}/v1", name), **fields)


async def play(street, *contestants, rounds=ROUNDS):
    def now():
        return asyncio.get_running_loop().time()

    match = Match(contestants, (BUSY, SHORT), rounds)
    return [step async for step in run_match(match, transport=street, clock=now)]


@pytest.fixture
def street():
    return Street(ours=Script(first=0.1, gap=0.1), theirs=Script(first=0.2, gap=0.2), slow=Script(first=1.0, gap=1.0))


async def test_ratios_are_those_of_the_scripts(street):
    steps = await play(street, contestant("ours"), contestant("theirs"))
    busy, short = steps[-1].scenarios
    assert [result.ratio for result in busy.results] == [None, pytest.approx(2.0)]
    assert busy.results[0].output_throughput == pytest.approx(2 * 4 / 0.4)
    assert (busy.results[1].tpot_ms, busy.results[1].ttft_ms) == pytest.approx((200, 200))
    assert short.results[0].completed == 2 * ROUNDS


async def test_only_one_has_work_at_a_time(street):
    await play(street, contestant("ours"), contestant("theirs"))
    assert street.overlaps == 0


async def test_everybody_is_asked_the_same_and_anew_each_round(street):
    await play(street, contestant("ours"), contestant("theirs"))
    ours, theirs = (
        [body["messages"][0]["content"] for body in street.servers[name].bodies] for name in ("ours", "theirs")
    )
    assert sorted(ours) == sorted(theirs)
    assert len(set(ours)) == len(ours)  # and the warm-up is asked other prompts


async def test_who_begins_changes_from_round_to_round(street):
    steps = await play(street, contestant("ours"), contestant("theirs"))
    assert [step.text for step in steps if "busy" in step.text] == [
        "round 1, busy, ours",
        "round 1, busy, theirs",
        "round 2, busy, theirs",
        "round 2, busy, ours",
        "round 3, busy, ours",
        "round 3, busy, theirs",
    ]


async def test_a_slow_one_can_be_kept_to_one_scenario(street):
    steps = await play(street, contestant("ours"), contestant("slow", only_in=frozenset({"short"})))
    busy, short = steps[-1].scenarios
    assert [result.contestant for result in busy.results] == ["ours"]
    assert [result.contestant for result in short.results] == ["ours", "slow"]


async def test_who_fails_has_counts_and_no_ratio():
    street = Street(ours=Script(first=0.1), broken=Script(status_of=lambda _number: 500))
    steps = await play(street, contestant("ours"), contestant("broken"))
    broken = steps[-1].scenarios[0].results[1]
    assert (broken.completed, broken.failed, broken.ratio) == (0, 12, None)
    assert broken.errors == ("HTTP 500: scripted 500",)


def test_medians_are_of_the_rounds():
    def row(throughput, ttft):
        whole = one_row_run().rows[0]
        percentiles = whole.ttft_ms.model_copy(update={"p50": ttft, "p95": 2 * ttft})
        fields = {"output_throughput": throughput, "ttft_ms": percentiles, "tpot_ms": None, "e2e_ms": percentiles}
        return whole.model_copy(update=fields)

    result = summarise_rounds("x", [row(1.0, 30), row(100.0, 10), row(2.0, 20)])
    assert (result.output_throughput, result.ttft_ms, result.tpot_ms) == (2.0, 20, None)
    assert result.ttft_p95_ms == 40
    assert result.rounds == (1.0, 100.0, 2.0)


async def test_a_match_begins_its_prompts_with_words_of_its_own(street):
    contents = []
    for _ in range(2):
        before = len(street.servers["ours"].bodies)
        await play(street, contestant("ours"), contestant("theirs"), rounds=1)
        contents.append({body["messages"][0]["content"] for body in street.servers["ours"].bodies[before:]})
        assert contents[-1] <= {body["messages"][0]["content"] for body in street.servers["theirs"].bodies}
    beginnings = [{tuple(text.split()[:4]) for text in found} for found in contents]
    assert not beginnings[0] & beginnings[1]
