"""Requests that nobody wrote, right and wrong by the routes' schema: none breaks the server or shows its inside."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator

import httpx2
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import Case, GenerationMode, Response
from schemathesis.specs.openapi.schemas import OpenApiSchema

from myserve_ui.server.composition import create_app
from myserve_ui.settings import Settings
from tests.api.openapi_document import FUZZED, AnswerCheck, narrowed
from tests.ui.live_server import serving

NUM_EXAMPLES = 12
PATIENCE = 20.0
LARGEST_ERROR = 8192


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The whole app over the echo, with a context so short that no answer takes long."""
    with serving(lambda: create_app(Settings(force_echo=True, max_model_len=256))) as url:
        deadline = time.monotonic() + PATIENCE
        while httpx2.get(f"{url}/health").status_code != 200:
            assert time.monotonic() < deadline
        yield url


@pytest.fixture(scope="module")
def wide(url: str) -> OpenApiSchema:
    """What the server itself says that it takes."""
    return schemathesis.openapi.from_dict(httpx2.get(f"{url}/openapi.json").json())


@pytest.fixture(scope="module")
def answers(url: str) -> AnswerCheck:
    return AnswerCheck(httpx2.get(f"{url}/openapi.json").json())


@pytest.fixture(scope="module")
def narrow(url: str) -> OpenApiSchema:
    return schemathesis.openapi.from_dict(narrowed(httpx2.get(f"{url}/openapi.json").json()))


def send_many(
    url: str, path: str, *, mode: GenerationMode, schema: OpenApiSchema, answers: AnswerCheck | None = None
) -> Counter[int]:
    """How often each status came; `answers` has what each must be."""
    statuses: Counter[int] = Counter()
    operation = next(iter(schema[path].values()))

    @settings(
        max_examples=NUM_EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def send(case: Case) -> None:
        response = case.call(base_url=url, timeout=PATIENCE)
        check(response)
        if answers is not None:
            answers.check(path, plain(response))
        statuses[response.status_code] += 1

    send()
    return statuses


def plain(response: Response) -> httpx2.Response:
    """A schemathesis answer as a client of HTTP has it."""
    asked = httpx2.Request(str(response.request.method), str(response.request.url))
    headers = {"content-type": response.headers["content-type"][0]}
    return httpx2.Response(response.status_code, headers=headers, content=response.content, request=asked)


def assert_it_still_answers(url: str) -> None:
    assert httpx2.get(f"{url}/health").json()["running"] == 0
    good = {"model": "echo", "prompt": "still here", "max_tokens": 30}
    answer = httpx2.post(f"{url}/v1/completions", json=good, timeout=PATIENCE)
    assert answer.json()["choices"][0]["text"] == "still here"


def check(response: Response) -> None:
    """No 5xx; an error is in the one shape, small, and tells nothing of the inside."""
    assert response.status_code < 500, response.text
    if response.status_code >= 400:
        assert len(response.content) < LARGEST_ERROR
        error = response.json()["error"]
        assert set(error) == {"message", "type", "param", "code"}
        for leak in ("Traceback", "pydantic", "/site-packages", " object at 0x"):
            assert leak not in error["message"]


@pytest.mark.parametrize("path", FUZZED)
def test_right_bodies_are_answered_as_the_document_says(
    url: str, narrow: OpenApiSchema, answers: AnswerCheck, path: str
) -> None:
    statuses = send_many(url, path, mode=GenerationMode.POSITIVE, schema=narrow, answers=answers)
    assert statuses[200]
    assert_it_still_answers(url)


@pytest.mark.parametrize("path", FUZZED)
def test_nearly_right_bodies_are_refused(url: str, narrow: OpenApiSchema, path: str) -> None:
    send_many(url, path, mode=GenerationMode.NEGATIVE, schema=narrow)
    assert_it_still_answers(url)


@pytest.mark.parametrize("path", FUZZED)
def test_bodies_that_are_far_off_are_refused(url: str, wide: OpenApiSchema, path: str) -> None:
    send_many(url, path, mode=GenerationMode.NEGATIVE, schema=wide)
    assert_it_still_answers(url)


@pytest.mark.parametrize("path", ["/v1/models", "/v1/models/{model_id}", "/health", "/live", "/metrics"])
def test_no_question_breaks_the_server(url: str, wide: OpenApiSchema, answers: AnswerCheck, path: str) -> None:
    send_many(url, path, mode=GenerationMode.POSITIVE, schema=wide, answers=answers)
    assert httpx2.get(f"{url}/live").status_code == 200
