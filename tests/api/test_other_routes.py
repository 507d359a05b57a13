"""Text completions, the plain routes, models and probes."""

from __future__ import annotations

from dataclasses import replace

import httpx2
import openai
import pytest

from myserve_ui.core.outputs import FinishReason
from tests.api.scripted_service import READY, Script, ScriptedService


async def test_a_text_completion_equals_its_stream(sdk: openai.AsyncOpenAI, service: ScriptedService) -> None:
    whole = await sdk.completions.create(model="tiny", prompt="One, two,")
    stream = await sdk.completions.create(
        model="tiny", prompt=[1, 2], stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]
    assert "".join(chunk.choices[0].text for chunk in chunks if chunk.choices) == whole.choices[0].text == "Hello"
    assert whole.object == chunks[0].object == "text_completion"
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
    assert chunks[-1].usage == whole.usage
    assert service.requests[-1].prompt == (1, 2)


async def test_generate_answers_text_and_counts(client: httpx2.AsyncClient, service: ScriptedService) -> None:
    response = await client.post("/generate", json={"prompt": "Hi", "max_new_tokens": 7})
    assert response.json() == {"text": "Hello", "prompt_tokens": 3, "output_tokens": 3}
    request = service.requests[-1]
    assert (request.prompt, request.model, request.params.max_tokens) == ("Hi", "", 7)
    assert request.params.temperature == 0.0


async def test_stream_sends_the_same_text_plainly(client: httpx2.AsyncClient) -> None:
    response = await client.post("/stream", json={"prompt": "Hi"})
    assert response.headers["content-type"] == "text/plain; charset=utf-8"
    assert response.text == "Hello"


async def test_stream_that_fails_before_any_text_has_a_status(
    client: httpx2.AsyncClient, service: ScriptedService
) -> None:
    service.script = Script(deltas=[""], finish_reason=FinishReason.ERROR, error="The step failed.")
    response = await client.post("/stream", json={"prompt": "Hi"})
    assert response.status_code == 500
    assert service.open_streams == 0


async def test_every_model_is_listed_and_found_by_its_id(sdk: openai.AsyncOpenAI, client: httpx2.AsyncClient) -> None:
    listed = [model async for model in await sdk.models.list()]
    assert [model.id for model in listed] == ["tiny", "org/tiny:nf4"]
    for model in listed:
        assert (await client.get(f"/v1/models/{model.id}")).json() == model.model_dump(exclude_unset=True)
    first = (await client.get("/v1/models/tiny")).json()
    assert (first["loaded"], first["context_length"], first["bits_per_parameter"]) == (True, 256, 32.0)


@pytest.mark.parametrize("name", ["nope", "../../etc/passwd", "tiny:nf5", ""])
async def test_an_unknown_model_is_404(client: httpx2.AsyncClient, name: str) -> None:
    response = await client.get(f"/v1/models/{name}" if ".." not in name else "/v1/models/..%2F..%2Fetc%2Fpasswd")
    assert response.status_code == 404
    assert response.json()["error"]["code"] == "model_not_found"


@pytest.mark.parametrize("path", ["/health", "/healthz"])
async def test_health_says_ok(client: httpx2.AsyncClient, path: str) -> None:
    response = await client.get(path)
    assert response.status_code == 200
    assert response.json()["status"] == "ok"
    assert (await client.head(path)).status_code == 200


@pytest.mark.parametrize("code", ["model_loading", "shutting_down", "engine_dead", "engine_stalled"])
async def test_health_says_why_not(client: httpx2.AsyncClient, service: ScriptedService, code: str) -> None:
    service.health = replace(READY, ready=False, code=code, reason="for some reason")
    response = await client.get("/health")
    assert response.status_code == 503
    assert int(response.headers["retry-after"]) > 0
    assert response.json()["error"]["code"] == code
    assert response.json()["status"] == code
    assert (await client.get("/live")).status_code == 200
