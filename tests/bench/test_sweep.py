"""Several models under several loads: asked alike, side by side, ended in time, and gathered in one document."""

import asyncio
import json

import pytest

from myserve_ui.bench.client.client import Target
from myserve_ui.bench.documents.rows import make_row
from myserve_ui.bench.documents.run import BenchmarkRun
from myserve_ui.bench.limits import Limits
from myserve_ui.bench.loads import ClosedLoop, OpenLoop, Ramp
from myserve_ui.bench.question.question import NamedTarget
from myserve_ui.bench.roofline.roofline import MachineSpeed, ModelCost, ModelRoofline
from myserve_ui.bench.sweep import Surroundings, Sweep
from myserve_ui.bench.workload import Lengths, Workload
from myserve_ui.errors import InvalidRequestError
from tests.bench.made_runs import make_request
from tests.bench.scripted_server import Script, ScriptedServer

TARGETS = tuple(NamedTarget(Target("http://scripted/v1", name), name) for name in ("full", "nf4"))
LOADS = (ClosedLoop(1), ClosedLoop(2), OpenLoop(20.0))
WORKLOAD = Workload(4, output_tokens=Lengths(8, 8))


def now():
    return asyncio.get_running_loop().time()


def request(*, targets=TARGETS, loads=LOADS, workload=WORKLOAD, **fields):
    return make_request(targets, workload, loads, warm_up=False, **fields)


async def sweep(script=None, surroundings=None, **fields):
    server = ScriptedServer(script or Script(first=0.05, gap=0.01))
    steps = Sweep(request(**fields), transport=server, clock=now, surroundings=surroundings).run()
    return server, [step async for step in steps]


async def test_every_model_is_measured_under_every_load_in_alternating_order():
    _, steps = await sweep()
    document = steps[-1].document
    assert [row.model for row in document.rows] == ["full", "nf4", "nf4", "full", "full", "nf4"]
    assert [row.concurrency or row.rate for row in document.rows] == [1, 1, 2, 2, 20, 20]
    assert not document.stopped


async def test_models_are_asked_the_same():
    server, _ = await sweep(loads=(ClosedLoop(1),))
    asked = {name: [b["messages"] for b in server.bodies if b["model"] == name] for name in ("full", "nf4")}
    assert asked["full"] == asked["nf4"]


async def test_another_load_asks_other_prompts_so_that_nothing_that_was_kept_helps():
    server, _ = await sweep(targets=TARGETS[:1])
    contents = [body["messages"][0]["content"] for body in server.bodies]
    assert len(set(contents)) == len(contents) == 12


async def test_the_delays_of_the_server_are_in_the_rows():
    _, steps = await sweep(loads=(ClosedLoop(1),))
    for row in steps[-1].document.rows:
        assert row.ttft_ms.p50 == pytest.approx(50)
        assert row.tpot_ms.p99 == pytest.approx(10)
        assert row.output_throughput == pytest.approx(8 / 0.12)


async def test_progress_counts_up_to_the_whole():
    _, steps = await sweep()
    assert [step.done for step in steps] == sorted(step.done for step in steps)
    assert (steps[-1].done, steps[-1].total) == (24, 24)
    assert [len(step.rows) for step in steps][-1] == 6
    assert all(step.document is None for step in steps[:-1])
    assert any("nf4, 2 at once: " in step.text for step in steps)


async def test_a_document_is_json_and_loads_back_exactly():
    _, steps = await sweep()
    document = steps[-1].document
    assert BenchmarkRun.read(json.dumps(document.as_json(), allow_nan=False)) == document


async def test_rows_follow_from_the_raw_records():
    _, steps = await sweep(limits=Limits(ttft=0.2))
    document = steps[-1].document
    for index, row in enumerate(document.rows):
        named = next(named for named in TARGETS if named.precision == row.precision)
        again = make_row(named, LOADS[index // 2], document.records_of(index), Limits(ttft=0.2))
        assert row == again


async def test_the_time_limit_ends_all_of_it_and_what_was_measured_stays():
    _, steps = await sweep(Script(first=0.5), loads=(ClosedLoop(1), ClosedLoop(4)), time_limit=1.2)
    document = steps[-1].document
    assert now() == pytest.approx(1.2, abs=0.01)
    assert document.stopped and len(document.rows) == 1
    assert (document.rows[0].completed, document.rows[0].cancelled) == (2, 2)
    assert BenchmarkRun.check(document.as_json()) == document


async def test_the_warm_up_is_within_the_time_limit():
    server = ScriptedServer(Script(first=5.0))
    asked = make_request(TARGETS[:1], WORKLOAD, LOADS[:1], time_limit=1.0)
    steps = [step async for step in Sweep(asked, transport=server, clock=now).run()]
    assert now() == pytest.approx(1.0, abs=0.01)
    assert steps[-1].document.stopped


async def test_what_was_measured_before_a_stop_can_be_had():
    server = ScriptedServer(Script(first=0.4))
    running = Sweep(request(loads=(ClosedLoop(1),)), transport=server, clock=now)
    steps = running.run()
    async for step in steps:
        if step.done >= 5:
            break
    await steps.aclose()
    document = running.document()
    assert server.open == 0
    assert document.stopped
    assert [row.completed for row in document.rows] == [4, 1]
    assert BenchmarkRun.read(json.dumps(document.as_json())) == document


async def test_differences_between_models_are_paired():
    _, steps = await sweep(loads=(ClosedLoop(1),))
    (difference,) = steps[-1].document.differences
    assert (difference.a.model, difference.b.model) == ("full", "nf4")
    assert difference.latencies.ttft_ms.mean == pytest.approx(0, abs=0.01)
    assert (difference.latencies.e2e_ms.n, difference.latencies.e2e_ms.is_paired) == (4, True)


async def test_a_row_says_how_near_it_came_to_the_roofline():
    machine = MachineSpeed(bytes_per_s=1e9, flops_per_s=1e15, device="cpu", dtype="float32")
    roofline = ModelRoofline(machine, ModelCost(4_000_000, 1_000_000, 0), 4_000_000)
    _, steps = await sweep(loads=(ClosedLoop(1),), surroundings=Surroundings(roofline=lambda _named: roofline))
    document = steps[-1].document
    assert document.rows[0].roofline_share == pytest.approx(0.4)  # 4 ms of reading against 10 ms
    assert document.rooflines["full"].rows[0].bound_ms == pytest.approx(4)


async def test_no_key_gets_into_a_document():
    targets = (NamedTarget(Target("http://scripted/v1", "m", "secret-key"), "full"),)
    server, steps = await sweep(targets=targets)
    assert server.headers[0]["authorization"] == "Bearer secret-key"
    assert "secret-key" not in json.dumps(steps[-1].document.as_json())
    assert steps[-1].document.settings.targets[0].has_key


async def test_a_server_that_refuses_everything_gives_rows_of_counts():
    _, steps = await sweep(Script(status_of=lambda _number: 401))
    row = steps[-1].document.rows[0]
    assert (row.failed, row.ttft_ms, row.errors) == (4, None, {"HTTP 401: scripted 401": 4})
    assert not steps[-1].document.stopped


async def test_a_ramp_is_one_row():
    _, steps = await sweep(loads=(Ramp((ClosedLoop(1), ClosedLoop(4))),), targets=TARGETS[:1])
    (row,) = steps[-1].document.rows
    assert [step.concurrency for step in row.load.steps] == [1, 4]


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"targets": ()}, "model"),
        ({"loads": ()}, "load"),
        ({"time_limit": 0}, "time_limit"),
        ({"loads": LOADS * 99}, "rows"),
        ({"loads": LOADS * 2}, "named 2 times"),
    ],
)
def test_a_sweep_of_nothing_or_of_too_much_is_refused(fields, word):
    with pytest.raises(InvalidRequestError, match=word):
        request(**fields)


async def asked_of(**fields):
    server, steps = await sweep(**fields)
    return [body["messages"][0]["content"] for body in server.bodies], steps[-1].document


async def test_the_same_benchmark_again_finds_nothing_of_the_first():
    (first, one), (second, two) = [await asked_of(loads=LOADS[:1]) for _ in range(2)]
    assert one.settings.salt != two.settings.salt
    assert not {text.split()[0:4] == other.split()[0:4] for text in first for other in second} - {False}
    assert [len(text.split()) for text in first] == [len(text.split()) for text in second]


async def test_a_run_can_be_asked_again_by_its_salt():
    first, one = await asked_of(loads=LOADS[:1])
    salt = one.settings.salt
    again, two = await asked_of(loads=LOADS[:1], workload=Workload(4, output_tokens=Lengths(8, 8), salt=salt))
    assert (again, two.settings.salt) == (first, salt)
    assert one.settings.example["messages"][0]["content"] == first[0]


async def test_a_run_without_a_salt_asks_as_the_seed_says():
    workload = Workload(4, output_tokens=Lengths(8, 8), salt="")
    (first, one), (second, _) = [await asked_of(loads=LOADS[:1], workload=workload) for _ in range(2)]
    assert (first, one.settings.salt) == (second, "")


async def test_the_warm_up_is_no_beginning_of_what_is_measured_even_of_a_file_without_a_salt():
    workload = Workload(2, output_tokens=Lengths(2, 2), prompts=("Why is the sky blue?",), salt="")
    server = ScriptedServer(Script())
    asked = make_request(TARGETS[:1], workload, LOADS[:1])
    async for _step in Sweep(asked, transport=server, clock=now).run():
        pass
    warm, measured = [
        [body["messages"][0]["content"] for body in part] for part in (server.bodies[:2], server.bodies[2:])
    ]
    assert measured == ["Why is the sky blue?"] * 2
    assert not any(text.startswith("Why") for text in warm)


async def test_a_server_that_is_named_twice_is_not_asked_the_same_twice():
    contents, document = await asked_of(targets=(TARGETS[0], TARGETS[0]), loads=LOADS[:1])
    assert len(set(contents)) == 8
    assert len(document.rows) == 2


async def test_cached_tokens_are_in_rows_and_requests():
    _, steps = await sweep(Script(cached_tokens=5), loads=LOADS[:1])
    document = steps[-1].document
    assert [(row.cached_tokens, row.cached_share) for row in document.rows] == [(20, 5 / 7)] * 2
    assert {request.cached_tokens for request in document.requests} == {5}
    assert document.records_of(0)[0].cached_tokens == 5


async def test_a_server_that_does_not_tell_has_no_cached_share():
    _, steps = await sweep(loads=LOADS[:1])
    assert {row.cached_share for row in steps[-1].document.rows} == {None}


async def test_a_document_from_before_salts_and_cached_tokens_is_read():
    _, steps = await sweep(loads=LOADS[:1])
    document = steps[-1].document.as_json()
    del document["settings"]["salt"]
    for entry in (*document["rows"], *document["requests"]):
        for name in ("cached_tokens", "cached_share"):
            entry.pop(name, None)
    assert BenchmarkRun.read(json.dumps(document)).records_of(0)[0].cached_tokens is None
    document["requests"][0]["cached_tokens"] = "many"
    with pytest.raises(InvalidRequestError, match="cached_tokens should be a number"):
        BenchmarkRun.read(json.dumps(document))


def test_targets_of_one_name_are_called_by_their_models():
    named = [
        NamedTarget(Target("http://s/v1", model), of) for model, of in (("a", "full"), ("a:nf4", "nf4"), ("b", "full"))
    ]
    request = make_request(named, Workload(1), (ClosedLoop(1),))
    assert [request.name_of(each) for each in named] == ["a", "nf4", "b"]
