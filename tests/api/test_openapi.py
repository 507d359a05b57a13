"""/openapi.json is served, names every route, and is true of real answers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import httpx2
import jsonschema_rs
import pytest
import pytest_asyncio
from fastapi import FastAPI
from starlette.routing import Route

from myserve_ui.api import openapi
from myserve_ui.api.door import add_api
from myserve_ui.settings import Settings
from tests.api.openapi_document import AnswerCheck, Json
from tests.api.real_door import CHAT, TEXT, RealDoor, user
from tests.api.scripted_service import READY, ScriptedService
from tests.support.precisions import TEXT as LONG_TEXT, make_comparisons

AppFactory = Callable[..., FastAPI]
HI: Json = {"model": "llama", "messages": user("Hi"), "max_tokens": 4, "temperature": 0}
ON: Json = {"model": "llama", "prompt": "Hi", "max_tokens": 4, "temperature": 0}
USAGE: Json = {"stream": True, "stream_options": {"include_usage": True}}
WEATHER: Json = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
ASKED: list[tuple[str, Json]] = [
    (CHAT, HI),
    (CHAT, {**HI, "n": 2, "logprobs": True, "top_logprobs": 2, "return_token_ids": True}),
    (CHAT, {**HI, "tools": [WEATHER], "tool_choice": "required"}),
    (CHAT, {**HI, "stop": "e"}),
    (CHAT, {**HI, "stream": True}),
    (CHAT, {**HI, **USAGE, "n": 2, "logprobs": True, "top_logprobs": 2, "return_token_ids": True}),
    (CHAT, {**HI, "stream": True, "tools": [WEATHER], "tool_choice": "required"}),
    (CHAT, {**HI, "temperature": "hot"}),
    (CHAT, {**HI, "model": "nobody"}),
    (CHAT, {}),
    (TEXT, ON),
    (TEXT, {**ON, "prompt": ["a", "b"], "logprobs": 2, "echo": True, "return_token_ids": True}),
    (TEXT, {**ON, "stream": True}),
    (TEXT, {**ON, **USAGE, "logprobs": 2, "echo": True, "return_token_ids": True}),
    (TEXT, {**ON, "prompt": []}),
    ("/generate", {"prompt": "Hi", "max_new_tokens": 3}),
    ("/generate", {"prompt": 5}),
    ("/stream", {"prompt": "Hi", "max_new_tokens": 3}),
    ("/stream", {}),
    ("/tokenize", {"content": "Hi"}),
    ("/tokenize", {"messages": user("Hi")}),
    ("/tokenize", {}),
    ("/detokenize", {"tokens": [5, 6]}),
    ("/detokenize", {"tokens": [-1]}),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def answers(door: RealDoor) -> AnswerCheck:
    return AnswerCheck((await door.http.get("/openapi.json")).json())


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(("path", "body"), ASKED, ids=str)
async def test_what_is_posted_is_answered_as_the_document_says(
    door: RealDoor, answers: AnswerCheck, path: str, body: Json
) -> None:
    answers.check(path, await door.http.post(path, json=body))


@pytest.mark.asyncio(loop_scope="module")
async def test_the_check_bites(door: RealDoor, answers: AnswerCheck) -> None:
    answer = await door.http.post(CHAT, json=HI)
    for wrong in ({**answer.json(), "more": 1}, {**answer.json(), "created": "now"}, {"id": "chatcmpl-1"}):
        with pytest.raises(jsonschema_rs.ValidationError):
            answers.check(CHAT, httpx2.Response(200, json=wrong, request=answer.request))


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("path", ["/v1/models", "/health", "/healthz", "/live", "/metrics"])
async def test_what_is_got_is_as_the_document_says(door: RealDoor, answers: AnswerCheck, path: str) -> None:
    answers.check(path, await door.http.get(path))


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("name", ["llama", "nobody"])
async def test_a_model_is_as_the_document_says(door: RealDoor, answers: AnswerCheck, name: str) -> None:
    answers.check("/v1/models/{model_id}", await door.http.get(f"/v1/models/{name}"))


async def test_a_service_that_is_not_ready_says_so_as_the_document_does(
    client: httpx2.AsyncClient, service: ScriptedService
) -> None:
    answers = AnswerCheck((await client.get("/openapi.json")).json())
    service.health = replace(READY, ready=False, reason="It loads.", code="model_loading")
    response = await client.get("/health")
    assert response.status_code == 503
    answers.check("/health", response)


@pytest.fixture
async def evaluation() -> AsyncIterator[httpx2.AsyncClient]:
    comparisons = make_comparisons()
    app = FastAPI(openapi_url=None, redirect_slashes=False)
    add_api(app, comparisons.chat, Settings(), comparisons=comparisons, is_browser_path=lambda path: path == "/")
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://127.0.0.1") as client:
        yield client
    await comparisons.chat.shut_down()


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/compare", {"prompt": "Hello", "max_tokens": 8}),
        ("/v1/compare", {"prompt": "Hello", "max_tokens": 8, "evidence": False, "candidate": "int8"}),
        ("/v1/compare", {}),
        ("/v1/fidelity", {"text": LONG_TEXT[:80], "window": 64, "stride": 32}),
        ("/v1/fidelity", {"text": LONG_TEXT[:80], "window": 64, "stride": 32, "tokens": False}),
        ("/v1/fidelity", {"text": "x", "window": 1}),
    ],
    ids=str,
)
async def test_documents_of_an_evaluation_are_as_the_document_says(
    evaluation: httpx2.AsyncClient, path: str, body: Json
) -> None:
    answers = AnswerCheck((await evaluation.get("/openapi.json")).json())
    answers.check(path, await evaluation.post(path, json=body))


async def test_every_route_is_in_it(client: httpx2.AsyncClient, app_factory: AppFactory) -> None:
    document = (await client.get("/openapi.json")).json()
    told = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    routes = {
        (method, route.path_format)
        for route in app_factory().routes
        if isinstance(route, Route)
        for method in route.methods or ()
    }
    assert told == {(method, path) for method, path in routes if method != "HEAD" and path != "/openapi.json"}


async def test_every_operation_has_a_name_of_its_own(client: httpx2.AsyncClient) -> None:
    paths = (await client.get("/openapi.json")).json()["paths"]
    names = [operation["operationId"] for methods in paths.values() for operation in methods.values()]
    assert len(set(names)) == len(names)
    assert "create_chat_completion" in names


async def test_a_key_is_needed_to_read_it_and_is_told_of_in_it(app_factory: AppFactory) -> None:
    app = app_factory(api_key="secret")
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://127.0.0.1") as client:
        assert (await client.get("/openapi.json")).status_code == 401
        document = (await client.get("/openapi.json", headers={"authorization": "Bearer secret"})).json()
    scheme = {"type": "http", "scheme": "bearer"}
    assert document["components"]["securitySchemes"] == {"ApiKey": scheme}
    assert document["security"] == [{"ApiKey": []}]
    open_paths = {path for path, methods in document["paths"].items() if methods.get("get", {}).get("security") == []}
    assert open_paths == {"/live", "/health", "/healthz"}


async def test_a_server_without_keys_asks_for_none(client: httpx2.AsyncClient) -> None:
    document = (await client.get("/openapi.json")).json()
    assert "security" not in document
    assert "securitySchemes" not in document["components"]


async def test_behind_a_prefix_it_says_where_the_paths_begin(app_factory: AppFactory) -> None:
    transport = httpx2.ASGITransport(app_factory(), root_path="/llm")
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        assert (await client.get("/llm/openapi.json")).json()["servers"] == [{"url": "/llm"}]


async def test_it_is_made_when_somebody_asks_and_once(app_factory: AppFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    build = openapi.build_document

    def counted(*args: Any, **options: Any) -> Any:
        made.append(args)
        return build(*args, **options)

    monkeypatch.setattr(openapi, "build_document", counted)
    app = app_factory()
    assert made == []
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://127.0.0.1") as client:
        first, second = await client.get("/openapi.json"), await client.get("/openapi.json")
    assert len(made) == 1
    assert first.content == second.content
