"""A newcomer's first hour with the default model: the SDK, gradio_client, two people at once, the printed scripts."""

from __future__ import annotations

import asyncio
import itertools
import os
import subprocess
import sys

import httpx2
import openai
import pytest
from gradio_client import Client

from tests.product.conftest import ROOT, RunningApp

pytestmark = pytest.mark.model
CAPITAL = "What is the capital of France?"


def sdk_of(app: RunningApp) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{app.url}/v1", api_key="none", max_retries=0)


async def ask(client: openai.AsyncOpenAI, text: str, **options: object):
    settings = {"temperature": 0, "max_tokens": 40, **options}
    return await client.chat.completions.create(
        model="SmolLM2-135M-Instruct", messages=[{"role": "user", "content": text}], **settings
    )


async def stream_text(client: openai.AsyncOpenAI, text: str) -> str:
    stream = await ask(client, text, stream=True)
    return "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])


async def test_the_capital_of_france_is_paris_streamed_or_not(app):
    async with sdk_of(app) as client:
        whole = (await ask(client, CAPITAL)).choices[0].message.content
        streamed = await stream_text(client, CAPITAL)
    assert "Paris" in whole
    assert streamed == whole


async def test_two_clients_that_stream_at_once_get_their_solo_texts(app):
    questions = ("Name three fruits.", "Why is the sky blue?")
    async with sdk_of(app) as first, sdk_of(app) as second:
        solo = [await stream_text(client, text) for client, text in zip((first, second), questions, strict=True)]
        together = await asyncio.gather(stream_text(first, questions[0]), stream_text(second, questions[1]))
    assert together == solo
    assert solo[0] != solo[1]


async def test_usage_counts_the_rendered_template(app):
    async with sdk_of(app) as client:
        usage = (await ask(client, CAPITAL, max_tokens=1)).usage
    assert (usage.completion_tokens, usage.total_tokens) == (1, usage.prompt_tokens + 1)


def test_gradio_client_gets_the_same_answer(app):
    client = Client(app.url, verbose=False)
    job = client.submit(message=CAPITAL, temperature=0, max_tokens=40, api_name="/chat")
    texts = list(job)
    client.close()
    assert "Paris" in texts[-1]
    assert all(later.startswith(earlier) for earlier, later in itertools.pairwise(texts))


def test_the_plain_routes_answer(app):
    body = {"prompt": "One, two, three,", "max_new_tokens": 8, "temperature": 0}
    whole = httpx2.post(f"{app.url}/generate", json=body, timeout=60).json()
    streamed = httpx2.post(f"{app.url}/stream", json=body, timeout=60).text
    assert whole["output_tokens"] == 8
    assert whole["text"].startswith(" four")
    assert streamed == whole["text"]


@pytest.mark.parametrize("script", ["openai_sdk.py.txt", "gradio_client.py.txt"])
def test_a_printed_script_works_as_it_stands(app, script):
    source = (ROOT / "assets" / "examples" / script).read_text()
    assert "http://127.0.0.1:7860" in source
    run = subprocess.run(
        [sys.executable, "-c", source.replace("http://127.0.0.1:7860", app.url)],
        capture_output=True,
        text=True,
        timeout=90,
        env=os.environ | {"GRADIO_ANALYTICS_ENABLED": "False"},
    )
    assert run.returncode == 0, run.stderr
    assert "Paris" in run.stdout


async def test_the_second_precision_loads_when_asked_for_and_answers(app):
    async with httpx2.AsyncClient(base_url=app.url, timeout=60) as client:
        body = {
            "model": "SmolLM2-135M-Instruct:nf4",
            "messages": [{"role": "user", "content": CAPITAL}],
            "temperature": 0,
            "max_tokens": 12,
        }
        reply = await client.post("/v1/chat/completions", json=body)
        refused = reply.status_code
        while reply.status_code == 503:
            assert reply.json()["error"]["code"] == "model_loading"
            await asyncio.sleep(min(float(reply.headers["retry-after"]), 1.0))
            reply = await client.post("/v1/chat/completions", json=body)
    assert refused == 503
    assert "Paris" in reply.json()["choices"][0]["message"]["content"]


def test_ctrl_c_ends_the_app_with_exit_code_0_although_a_page_is_open():
    running = RunningApp("--force-echo")
    client = Client(running.url, verbose=False)
    code = running.stop()
    client.close()
    assert code == 0, "".join(running.lines)
    assert "Traceback" not in "".join(running.lines)
