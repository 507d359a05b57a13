"""The server's own split, from the text of its metrics."""

import httpx2
import pytest

from myserve_ui.bench.client.client import Target
from myserve_ui.bench.client.server_split import parse_server_times, read_server_times


def metrics(scale: float, model: str = "m") -> str:
    return "".join(
        f'vllm:request_{part}_time_seconds_sum{{model_name="{model}"}} {scale * seconds}\n'
        f'vllm:request_{part}_time_seconds_count{{model_name="{model}"}} {scale * 4}\n'
        for part, seconds in (("queue", 0.4), ("prefill", 0.8), ("decode", 4.0))
    )


def test_means_are_of_the_requests_in_between():
    before, after = (parse_server_times(metrics(scale), "m") for scale in (1.0, 3.0))
    assert dict(after.mean_ms_since(before)) == pytest.approx({"queue": 100, "prefill": 200, "decode": 1000})


def test_other_models_are_left_out_and_no_requests_have_no_means():
    text = metrics(1.0) + metrics(9.0, "other")
    times = parse_server_times(text, "m")
    assert times == parse_server_times(metrics(1.0), "m")
    assert times.mean_ms_since(times) is None


def test_before_the_first_request_there_is_nothing_yet():
    before, after = parse_server_times("# HELP x\nx 1\n", "m"), parse_server_times(metrics(1.0), "m")
    assert dict(after.mean_ms_since(before)) == pytest.approx({"queue": 100, "prefill": 200, "decode": 1000})
    assert before.mean_ms_since(before) is None


@pytest.mark.parametrize("value", ["NaN", "+Inf", "1e999", "-1", "1e300", "many"])
async def test_totals_that_cannot_be_are_none(value):
    text = metrics(1.0) + f'vllm:request_queue_time_seconds_sum{{model_name="m"}} {value}\n'
    transport = httpx2.MockTransport(lambda _request: httpx2.Response(200, text=text))
    assert await read_server_times(Target("http://x/v1", "m"), transport=transport) is None


async def test_metrics_without_end_are_cut():
    text = metrics(1.0) + "# x\n" * 2**23
    transport = httpx2.MockTransport(lambda _request: httpx2.Response(200, text=text))
    assert await read_server_times(Target("http://x/v1", "m"), transport=transport) == parse_server_times(
        metrics(1.0), "m"
    )
