"""Every status that is not a success has the one shape and its own headers."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2
import openai
import pytest

from myserve_ui import errors
from tests.api.scripted_service import Script, ScriptedService, failing

BODY = {"model": "tiny", "messages": [{"role": "user", "content": "Hi"}]}
CHAT = "/v1/chat/completions"

RAISED = [
    (errors.InvalidRequestError("No.", param="stop"), 400, None),
    (errors.ContextLengthExceededError("300 > 256", param="messages"), 400, "context_length_exceeded"),
    (errors.ModelNotFoundError("No such model.", param="model"), 404, "model_not_found"),
    (errors.OverloadedError("The queue is full."), 429, "overloaded"),
    (errors.ModelLoadingError("Loading."), 503, "model_loading"),
    (errors.ShuttingDownError("Draining."), 503, "shutting_down"),
    (errors.EngineDeadError("The engine is dead."), 503, "engine_dead"),
    (errors.PrecisionUnavailableError("Not here."), 400, "precision_unavailable"),
    (errors.GenerationFailedError("A step failed."), 500, None),
]


def assert_contract(response: httpx2.Response, status: int, code: str | None) -> None:
    assert response.status_code == status
    error = response.json()["error"]
    assert list(error) == ["message", "type", "param", "code"]
    assert error["code"] == code
    assert ("retry-after" in response.headers) == (status in (429, 503))
    assert "x-request-id" in response.headers


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("error", "status", "code"), RAISED, ids=[type(error).__name__ for error, *_ in RAISED])
async def test_what_the_service_refuses_has_its_status_before_any_output(
    client: httpx2.AsyncClient,
    service: ScriptedService,
    error: errors.MyServeError,
    status: int,
    code: str | None,
    stream: bool,
) -> None:
    service.script = failing(error)
    response = await client.post(CHAT, json={**BODY, "stream": stream})
    assert_contract(response, status, code)
    assert response.json()["error"]["param"] == error.param
    service.script = Script()
    assert (await client.post(CHAT, json=BODY)).status_code == 200


async def test_an_unexpected_error_tells_nothing_of_the_inside(
    client: httpx2.AsyncClient, service: ScriptedService, caplog: pytest.LogCaptureFixture
) -> None:
    service.script = Script(refusal=RuntimeError("/home/someone/secret at 0x7f00"))
    response = await client.post(CHAT, json=BODY)
    assert_contract(response, 500, None)
    assert "secret" not in response.text
    assert "secret" in caplog.text


async def test_a_long_message_is_cut(client: httpx2.AsyncClient, service: ScriptedService) -> None:
    service.script = failing(errors.InvalidRequestError("x" * 100_000))
    response = await client.post(CHAT, json=BODY)
    assert_contract(response, 400, None)
    assert len(response.content) < 8192


@pytest.mark.parametrize("path", ["/nope", "/v1", "/v1/", "/v1/nope", "/v1/chat/completions/", "//v1/models", "/docs"])
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
async def test_an_unknown_path_is_404(client: httpx2.AsyncClient, method: str, path: str) -> None:
    assert_contract(await client.request(method, f"http://127.0.0.1{path}"), 404, "not_found")


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("GET", CHAT, "POST"),
        ("PUT", CHAT, "POST"),
        ("GET", "/v1/completions", "POST"),
        ("GET", "/generate", "POST"),
        ("GET", "/stream", "POST"),
        ("POST", "/v1/models", "GET"),
        ("DELETE", "/v1/models/tiny", "GET"),
        ("POST", "/health", "GET, HEAD"),
        ("POST", "/live", "GET, HEAD"),
    ],
)
async def test_a_wrong_method_is_405_and_names_the_right_one(
    client: httpx2.AsyncClient, method: str, path: str, allow: str
) -> None:
    response = await client.request(method, path)
    assert_contract(response, 405, "method_not_allowed")
    assert response.headers["allow"] == allow


@pytest.mark.parametrize("path", [CHAT, "/v1/completions", "/generate", "/stream"])
@pytest.mark.parametrize(
    "content_type", [None, "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"]
)
async def test_a_form_post_cannot_drive_the_api(
    client: httpx2.AsyncClient, path: str, content_type: str | None
) -> None:
    headers = {"content-type": content_type} if content_type else {}
    assert_contract(await client.post(path, content=b"{}", headers=headers), 415, "unsupported_media_type")


async def test_a_content_type_may_have_parameters(client: httpx2.AsyncClient) -> None:
    response = await client.post(
        "/generate", content=b'{"prompt": "x"}', headers={"content-type": "Application/JSON; charset=utf-8"}
    )
    assert response.status_code == 200


async def test_a_body_over_the_limit_is_413_whether_declared_or_not(client: httpx2.AsyncClient) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(80):
            yield b" " * 65536

    headers = {"content-type": "application/json"}
    assert_contract(await client.post(CHAT, content=b" " * 5 * 2**20, headers=headers), 413, "body_too_large")
    assert_contract(await client.post(CHAT, content=pieces(), headers=headers), 413, "body_too_large")
    assert (await client.post(CHAT, json=BODY)).status_code == 200


async def test_headers_over_the_limit_are_431(client: httpx2.AsyncClient) -> None:
    assert_contract(await client.get("/live", headers={"x-long": "a" * 100_000}), 431, "headers_too_large")


async def test_the_official_client_raises_its_own_classes(sdk: openai.AsyncOpenAI, service: ScriptedService) -> None:
    with pytest.raises(openai.NotFoundError, match="not served"):
        await sdk.chat.completions.create(model="nope", messages=BODY["messages"])
    with pytest.raises(openai.BadRequestError) as refused:
        await sdk.chat.completions.create(model="tiny", messages=[], stream=True)
    assert refused.value.param == "messages"
    service.script = failing(errors.OverloadedError("The queue is full."))
    with pytest.raises(openai.RateLimitError):
        await sdk.chat.completions.create(model="tiny", messages=BODY["messages"])
