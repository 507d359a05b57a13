"""What a run says of how to run it again works as it is printed."""

from __future__ import annotations

import ast
import asyncio
import json
import shlex
from dataclasses import replace

import pytest

from myserve_ui.bench.client.client import Target
from myserve_ui.bench.documents.run import RunSettings
from myserve_ui.bench.limits import Limits, interactive_limits
from myserve_ui.bench.loads import ClosedLoop, OpenLoop, Ramp
from myserve_ui.bench.question.command_line import write_words
from myserve_ui.bench.question.form import forms_of
from myserve_ui.bench.question.question import NamedTarget
from myserve_ui.bench.question.reproduction import as_command, as_curl, as_gradio_client, question_of
from myserve_ui.bench.workload import Lengths, Workload
from myserve_ui.cli.bench_arguments import read_bench_arguments
from tests.bench.made_runs import make_request, make_run

MODELS = (("m", "full"), ("m:nf4", "nf4"))
URL = "http://127.0.0.1:1/v1"
TARGETS = tuple(NamedTarget(Target(URL, model), name, is_ours=True) for model, name in MODELS)
PLAIN = make_request(TARGETS, Workload(8), (ClosedLoop(1), ClosedLoop(4)))
RICH = make_request(
    TARGETS[:1],
    Workload(9, Lengths(4, 40), Lengths(5, 6), shared_prefix_tokens=7, turns=3, seed=11),
    (
        ClosedLoop(2),
        OpenLoop(1.5, 4.0),
        Ramp((ClosedLoop(1), ClosedLoop(8))),
        Ramp((OpenLoop(1.0, 4.0), OpenLoop(2.0, 4.0))),
    ),
    limits=Limits(0.25, None, 3.0),
    time_limit=99.0,
    warm_up=False,
)
STRICT = make_request(TARGETS, Workload(8, salt=""), (ClosedLoop(1),), limits=interactive_limits())


@pytest.mark.parametrize("request_", [PLAIN, RICH, STRICT])
def test_the_command_asks_for_the_same_benchmark(request_):
    program, dash, module, command, *words = shlex.split(as_command(make_run(request_)))
    assert (program, dash, module, command) == ("python", "-m", "myserve_ui", "bench")
    asked = read_bench_arguments(words).question
    assert replace(asked, targets=request_.question.targets) == request_.question
    assert [(target.url, target.model) for target in asked.targets] == [
        (named.target.url, named.target.model) for named in request_.targets
    ]
    assert [target.name for target in asked.targets] in ([""], ["full", "nf4"])


def test_a_run_that_started_the_app_starts_it_again():
    told = make_run(PLAIN)
    told = told.model_copy(update={"settings": told.settings.model_copy(update={"starts_app": True})})
    asked = read_bench_arguments(shlex.split(as_command(told))[4:])
    assert (asked.servers, asked.own.precisions, asked.settings) == ((), ("full", "nf4"), ("--model", "m"))
    assert "127.0.0.1:7860/v1/chat" in as_curl(told) and '"http://127.0.0.1:7860"' in as_gradio_client(told)


@pytest.mark.parametrize("request_", [PLAIN, RICH, STRICT])
def test_forms_ask_together_what_the_question_asks(request_):
    asked = question_of(RunSettings.of(request_))
    forms = [form.question() for form in forms_of(asked)]
    assert tuple(load for form in forms for load in form.loads) == request_.question.loads
    for form in forms:
        assert replace(form, loads=asked.loads, targets=asked.targets) == asked
        assert [target.model for target in form.targets] == [target.model for target in asked.targets]


@pytest.mark.parametrize("request_", [PLAIN, RICH, STRICT])
def test_words_of_the_command_line_and_questions_are_two_ways_to_say_the_same(request_):
    words = write_words(request_.question, own_url="")
    assert write_words(read_bench_arguments(words).question, own_url="") == words


def test_a_key_is_named_and_never_written():
    secret = NamedTarget(Target("http://127.0.0.1:1/v1", "m", "secret-key"), "full")
    told = make_run(make_request((secret,), Workload(8), (ClosedLoop(1),)))
    words = [write(told) for write in (as_command, as_curl, as_gradio_client)]
    assert all("secret-key" not in text and "API_KEY" in text for text in words)
    ast.parse(words[2])


def test_a_name_with_a_quote_stays_a_word():
    odd = NamedTarget(Target("http://127.0.0.1:1/v1", 'it\'s; rm -rf $HOME "x"'), "odd")
    told = make_run(make_request((odd,), Workload(8), (ClosedLoop(1),)))
    assert odd.target.model in shlex.split(as_command(told))
    body = json.loads(shlex.split(as_curl(told))[-1])
    assert body["model"] == odd.target.model
    ast.parse(as_gradio_client(told))


@pytest.mark.parametrize("request_", [PLAIN, RICH])
def test_the_script_calls_the_endpoint_once_for_each_kind_of_load(request_):
    script = ast.parse(as_gradio_client(make_run(request_)))
    calls = [
        node for node in ast.walk(script) if isinstance(node, ast.Call) and ast.unparse(node.func) == "client.submit"
    ]
    found = [{word.arg: ast.literal_eval(word.value) for word in call.keywords} for call in calls]
    assert [call["load"] for call in found] == (
        ["closed"] if request_ is PLAIN else ["closed", "open", "ramp", "ramp-rate"]
    )
    assert {call["api_name"] for call in found} == {"/benchmark"}
    assert found[0]["models"] == [named.target.model for named in request_.targets]
    assert found[0]["levels"] == ([1, 4] if request_ is PLAIN else [2])


async def test_the_curl_command_gets_a_streamed_answer(make_service):
    from tests.api.live import serve_door

    async with serve_door(await make_service("llama")) as url:
        named = NamedTarget(Target(f"{url}/v1", "llama"), "full")
        command = as_curl(make_run(make_request((named,), Workload(1, output_tokens=Lengths(3, 3)), (ClosedLoop(1),))))
        process = await asyncio.create_subprocess_shell(
            f"{command} -s", stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
        )
        answer = (await process.communicate())[0].decode()
    assert '"completion_tokens":3' in answer.replace(" ", "")
    assert answer.rstrip().endswith("data: [DONE]")


def test_several_models_of_an_app_that_was_started_are_started_and_measured_again():
    targets = tuple(NamedTarget(Target(URL, key), of, is_ours=True) for key, of in (("m", "full"), ("o:nf4", "nf4")))
    told = make_run(make_request(targets, Workload(8), (ClosedLoop(1),)))
    told = told.model_copy(update={"settings": told.settings.model_copy(update={"starts_app": True})})
    asked = read_bench_arguments(shlex.split(as_command(told))[4:])
    assert asked.settings == ("--model", "m,o")
    assert asked.own.precisions == ("m", "o:nf4")
