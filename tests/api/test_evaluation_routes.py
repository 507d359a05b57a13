"""The routes of comparisons and fidelity over real engines: what they answer and refuse; leaving ends the work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI

from myserve_ui.api.door import add_api
from myserve_ui.evaluation.comparisons import Comparisons
from myserve_ui.settings import Settings
from tests.api.test_leaving import Visitor, until
from tests.support.precisions import NOT_HERE, TEXT, make_comparisons

COMPARE, FIDELITY = "/v1/compare", "/v1/fidelity"
SHORT = {"text": TEXT[:80], "window": 64, "stride": 32}


@pytest.fixture
async def comparisons() -> AsyncIterator[Comparisons]:
    made = make_comparisons()
    yield made
    await made.chat.shut_down()


@pytest.fixture
def app(comparisons: Comparisons) -> FastAPI:
    app = FastAPI(openapi_url=None, redirect_slashes=False)
    add_api(app, comparisons.chat, Settings(), comparisons=comparisons, is_browser_path=lambda path: path == "/")
    return app


@pytest.fixture
async def client(app: FastAPI) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://127.0.0.1") as client:
        yield client


async def test_compare_answers_with_one_document(client: httpx2.AsyncClient) -> None:
    answer = await client.post(COMPARE, json={"prompt": "Hello", "max_tokens": 20})
    document = answer.json()
    assert (answer.status_code, document["kind"], document["base"], document["candidate"]) == (
        200,
        "compare",
        "tiny",
        "tiny:nf4",
    )
    assert document["answers"]["base"]["text"] != document["answers"]["candidate"]["text"]
    assert document["evidence"]["split"]["verdict"] == "quantisation changed the choice"


async def test_compare_takes_a_conversation_and_any_sampling(client: httpx2.AsyncClient) -> None:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}]
    body = {"messages": messages, "base": "nf4", "candidate": "full", "timing": "together", "temperature": 1.2}
    document = (await client.post(COMPARE, json={**body, "seed": 5, "max_tokens": 8, "evidence": False})).json()
    assert document["messages"] == messages
    assert document["settings"]["timing"] == "together"
    assert (document["settings"]["seed"], document["base"], document["evidence"]) == (5, "tiny:nf4", None)


async def test_fidelity_answers_with_the_report_and_its_tokens_if_wanted(client: httpx2.AsyncClient) -> None:
    whole = (await client.post(FIDELITY, json=SHORT)).json()
    short = (await client.post(FIDELITY, json={**SHORT, "tokens": False})).json()
    assert whole["tokens_scored"] == len(whole["tokens"]) == 80
    assert (short["tokens"], short["kld"]) == ([], whole["kld"])


async def test_a_model_against_itself_loses_nothing(client: httpx2.AsyncClient) -> None:
    report = (await client.post(FIDELITY, json={**SHORT, "candidate": "full"})).json()
    assert (report["kld"]["max"], report["ln_ratio"]["mean"], report["same_top"]["share"]) == (0, 0, 1)


@pytest.mark.parametrize(
    ("path", "body", "status", "param", "words"),
    [
        (FIDELITY, {"text": ""}, 400, "text", "needed"),
        (FIDELITY, {"text": "x" * 20_000}, 400, "text", "20001 tokens and a report takes at most 16384"),
        (FIDELITY, {}, 400, "text", "required"),
        (FIDELITY, {"text": 5}, 400, "text", "string"),
        (FIDELITY, {**SHORT, "window": 1}, 400, "window", "at least 2"),
        (FIDELITY, {**SHORT, "window": 9999}, 400, "window", "512"),
        (FIDELITY, {**SHORT, "window": "64"}, 400, "window", "whole number"),
        (FIDELITY, {**SHORT, "stride": 0}, 400, "stride", "[1, window = 64]"),
        (FIDELITY, {**SHORT, "stride": 65}, 400, "stride", "[1, window = 64]"),
        (FIDELITY, {**SHORT, "candidate": "other"}, 400, "candidate", "different tokens"),
        (FIDELITY, {**SHORT, "candidate": "int8"}, 400, "candidate", NOT_HERE),
        (FIDELITY, {**SHORT, "base": "q8"}, 404, "base", "tiny:nf4"),
        (FIDELITY, {**SHORT, "base": ""}, 400, "base", "not be empty"),
        (COMPARE, {}, 400, None, "either prompt or messages"),
        (COMPARE, {"prompt": "x", "messages": [{"role": "user", "content": "x"}]}, 400, None, "either"),
        (COMPARE, {"messages": []}, 400, "messages", "at least"),
        (COMPARE, {"prompt": "x", "max_tokens": 513}, 400, "max_tokens", "512"),
        (COMPARE, {"prompt": "x", "max_tokens": 0}, 400, "max_tokens", "1"),
        (COMPARE, {"prompt": "x", "temperature": 3}, 400, "temperature", "[0, 2]"),
        (COMPARE, {"prompt": "x", "timing": "later"}, 400, "timing", "together"),
        (COMPARE, {"prompt": "x", "base": "q8"}, 404, "base", "tiny:nf4"),
    ],
)
async def test_what_cannot_be_measured_is_refused_by_name_and_the_next_is_served(
    client: httpx2.AsyncClient, path: str, body: dict[str, Any], status: int, param: str | None, words: str
) -> None:
    answer = await client.post(path, json=body)
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (status, param)
    assert words in error["message"]
    assert (await client.post(FIDELITY, json=SHORT)).status_code == 200


async def test_a_text_of_one_token_has_nothing_to_predict(client: httpx2.AsyncClient) -> None:
    assert (await client.post(FIDELITY, json={**SHORT, "text": "x"})).json()["tokens_scored"] == 1  # after BOS


async def test_a_text_that_is_not_utf8_is_refused(client: httpx2.AsyncClient) -> None:
    headers = {"content-type": "application/json"}
    answer = await client.post(FIDELITY, content=b'{"text": "\xff\xfe"}', headers=headers)
    assert answer.status_code == 400
    assert "UTF-8" in answer.json()["error"]["message"]


async def test_a_precision_that_is_not_possible_is_told_on_its_side(client: httpx2.AsyncClient) -> None:
    document = (await client.post(COMPARE, json={"prompt": "x", "candidate": "int8", "max_tokens": 4})).json()
    assert document["answers"]["candidate"]["error"] == NOT_HERE
    assert document["answers"]["base"]["text"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (FIDELITY, {"text": TEXT * 8, "window": 64, "stride": 1}),
        (COMPARE, {"messages": [{"role": "user", "content": "x"}], "max_tokens": 480}),
    ],
)
async def test_a_client_that_leaves_ends_the_work(
    app: FastAPI, comparisons: Comparisons, path: str, body: dict[str, Any]
) -> None:
    visitor = Visitor(app, path, body)
    await until(lambda: any(engine.steps_total for engine in comparisons.chat.status().engines))
    await visitor.leave()
    async with asyncio.timeout(5):
        while any(engine.num_running for engine in comparisons.chat.status().engines):
            await asyncio.sleep(0.005)
