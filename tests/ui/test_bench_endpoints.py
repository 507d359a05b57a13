"""/benchmark, /roofline and /runs over tiny real models and a real port, as gradio_client sees them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest
from gradio_client import Client
from gradio_client.exceptions import AppError

from myserve_ui.bench.documents.run import BenchmarkRun
from myserve_ui.bench.question.reproduction import as_gradio_client
from tests.ui.bench_app import OWN_DOOR, bench_app
from tests.ui.live_server import serving

SMALL = {"levels": [2], "requests": 3, "output_tokens": "4", "prompt_tokens": "8", "warm_up": False}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(lambda: bench_app(tmp_path_factory.mktemp("runs"))) as address:
        yield address


@pytest.fixture(scope="module")
def client(url: str) -> Iterator[Client]:
    client = Client(url, verbose=False)
    yield client
    client.close()


def test_the_endpoints_are_described_and_nothing_must_be_given(client: Client) -> None:
    endpoints = client.view_api(return_format="dict", print_info=False)["named_endpoints"]
    for name in ("/benchmark", "/roofline", "/runs"):
        for parameter in endpoints[name]["parameters"]:
            assert parameter["parameter_has_default"], parameter["parameter_name"]
            assert parameter["parameter_name"] in endpoints[name]["description"]


def test_two_precisions_are_measured_over_the_own_port_with_the_same_requests(client: Client) -> None:
    *earlier, result = client.submit(**SMALL, models=["full", "nf4"], api_name="/benchmark")
    assert {"text", "done", "total", "seconds_left"} == set(earlier[-1])
    assert [(row["precision"], row["completed"], row["output_tokens"]) for row in result["rows"]] == [
        ("full", 3, 12),
        ("nf4", 3, 12),
    ]
    assert result["settings"]["url"].startswith("http://127.0.0.1:")
    assert [difference["b"]["precision"] for difference in result["differences"]] == ["nf4"]
    (document,) = client.predict(run=result["id"], api_name="/runs")
    assert len(document["requests"]) == 6 and document["rows"] == result["rows"]
    assert client.predict(api_name="/runs")[0]["id"] == result["id"]


def test_a_run_as_a_script_runs_as_printed(client: Client, capsys: pytest.CaptureFixture[str]) -> None:
    ramp = {**SMALL, "load": "ramp-rate", "levels": [20, 40], "arrivals": "constant"}
    result = client.predict(**ramp, api_name="/benchmark")
    (document,) = client.predict(run=result["id"], api_name="/runs")
    exec(compile(as_gradio_client(BenchmarkRun.check(document)), "<printed>", "exec"), {})
    assert "'completed': 3" in capsys.readouterr().out


def test_the_roofline_has_floor_and_ceilings(client: Client) -> None:
    document = client.predict(model="nf4", api_name="/roofline")
    assert (document["model"], document["bandwidth_bytes_per_s"]) == ("tiny:nf4", 1e9)
    assert [row["batch"] for row in document["rows"]] == [1, 1, 8, 32]
    assert document["rows"][0]["bound_ms"] == pytest.approx(0.4)


def test_another_server_is_measured_beside_and_its_key_is_not_kept(client: Client, url: str) -> None:
    result = client.predict(
        **SMALL, url=f"{url}/v1", url_model="tiny", api_key="sk-secret", seed=7, api_name="/benchmark"
    )
    assert [row["precision"] for row in result["rows"]] == [url.removeprefix("http://")]
    (document,) = client.predict(run=result["id"], api_name="/runs")
    assert "sk-secret" not in str(document)


def test_of_another_server_the_first_model_is_measured_if_none_is_named(client: Client, url: str) -> None:
    result = client.predict(**SMALL, url=f"{url}/v1", api_name="/benchmark")
    assert [(row["model"], row["completed"]) for row in result["rows"]] == [("tiny", 3)]


def test_a_server_that_cannot_be_reached_is_counted_and_told(client: Client) -> None:
    result = client.predict(**SMALL, url="http://127.0.0.1:9/v1", url_model="x", api_name="/benchmark")
    (row,) = result["rows"]
    assert (row["completed"], row["failed"], row["ttft_ms"]) == (0, 3, None)
    assert row["errors"] == {"the server cannot be reached": 3}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"models": ["q8"]}, "There is no model 'q8'"),
        ({"models": 5}, "models must be a list of texts"),
        ({"levels": [0]}, "concurrency must be in"),
        ({"levels": [10_000]}, "concurrency must be in"),
        ({"levels": [1, 1]}, "named 2 times"),
        ({"levels": [1.5]}, "whole number"),
        ({"levels": []}, "at least one load"),
        ({"levels": ["x"]}, "levels must be numbers"),
        ({"load": "open", "levels": [-1]}, "rate must be in"),
        ({"load": "later"}, "load must be one of"),
        ({"load": "open", "arrivals": "never"}, "arrivals must be one of"),
        ({"load": "open", "arrivals": "gamma", "burstiness": -1}, "burstiness must be above 0"),
        ({"limits": "none"}, "limits are"),
        ({"requests": 0}, "requests must be in"),
        ({"requests": "many"}, "requests must be a number"),
        ({"prompt_tokens": "9:3"}, "prompt_tokens must be a length"),
        ({"output_tokens": "9:1"}, "output_tokens must be a length"),
        ({"output_tokens": "x"}, "A length is a number"),
        ({"time_limit": 0}, "time_limit must be in"),
        ({"turns": 0}, "turns must be in"),
        ({"turns": -3}, "turns must be in"),
        ({"requests": -3}, "requests must be in"),
        ({"shared_prefix_tokens": -3}, "shared_prefix_tokens must be in"),
        ({"time_limit": -3}, "time_limit must be in"),
        ({"seed": -3}, "seed must be in"),
        ({"seed": 10**30}, "seed must be in"),
        ({"seed": 10**400}, "seed must be in"),
        *(
            ({"warm_up": value}, f"warm_up must be true or false, got '{value}'")
            for value in (0, None, 3, "yes", "false")
        ),
        ({"salted": 1}, "salted must be true or false, got '1'"),
        ({"prompts": ["  "]}, "prompts must be a list of texts"),
        ({"url": "ftp://x"}, "is no URL"),
        ({"url": "http://127.0.0.1:9/v1"}, "http://127.0.0.1:9/v1 cannot be reached"),
        ({"url": "http://user@host/v1"}, "is no URL"),
    ],
)
def test_a_wrong_call_fails_with_the_sentence(client: Client, arguments: dict[str, object], words: str) -> None:
    with pytest.raises(AppError, match=words):
        client.predict(**{**SMALL, **arguments}, api_name="/benchmark")


def test_a_job_that_is_read_in_a_loop_tells_its_error_at_the_end(client: Client) -> None:
    job = client.submit(requests=-3, api_name="/benchmark")
    assert list(job) == []
    with pytest.raises(AppError, match="requests must be in"):
        job.result()


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [("/roofline", {"model": "q8"}, "There is no model"), ("/runs", {"run": "../x"}, "is no id of a run")],
)
def test_the_other_endpoints_refuse_with_a_sentence(
    client: Client, name: str, arguments: dict[str, str], words: str
) -> None:
    with pytest.raises(AppError, match=words):
        client.predict(**arguments, api_name=name)


def test_leaving_a_benchmark_stops_it_and_keeps_what_is_measured(tmp_path: Path) -> None:
    with serving(lambda: bench_app(tmp_path, pause=0.005)) as url:
        client = Client(url, verbose=False)
        job = client.submit(**{**SMALL, "requests": 400, "output_tokens": "64"}, api_name="/benchmark")
        while not any(value.get("done", 0) >= 2 for value in job.outputs()):
            time.sleep(0.05)
        job.cancel()
        wait_for(lambda: httpx2.get(f"{url}/health").json()["running"] == 0)
        wait_for(lambda: bool(client.predict(api_name="/runs")))
        (line,) = client.predict(api_name="/runs")
        assert line["stopped"] and 2 <= line["requests"] < 400
        client.close()


def test_chat_answers_while_a_benchmark_runs(tmp_path: Path) -> None:
    with serving(lambda: bench_app(tmp_path, pause=0.002)) as url:
        client = Client(url, verbose=False)
        job = client.submit(**{**SMALL, "requests": 200, "output_tokens": "32"}, api_name="/benchmark")
        while not any(value.get("done", 0) for value in job.outputs()):
            time.sleep(0.05)
        assert client.predict(message="Hello", max_tokens=4, api_name="/chat") is not None
        assert not job.done()
        job.cancel()
        client.close()


def test_strangers_cannot_send_requests_through_an_open_app(tmp_path: Path) -> None:
    closed = replace(OWN_DOOR, measures_others=False)
    with serving(lambda: bench_app(tmp_path, own=closed)) as url:
        client = Client(url, verbose=False)
        with pytest.raises(AppError, match="Other servers can be measured"):
            client.predict(**SMALL, url="http://127.0.0.1:9/v1", api_name="/benchmark")
        client.close()


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)
