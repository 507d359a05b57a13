"""The whole app over two real folders with different tokenizers, each loaded in its own way."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from myserve_ui.server.composition import create_app
from myserve_ui.settings import Settings
from tests.support.tiny_checkpoint import save_two_models
from tests.ui.live_server import serving

TABLES = """
[[model]]
model = "./first"

[[model]]
model = "./second"
name = "other"
precisions = ["full", "int4"]
context = 128
template = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
"""
KEYS = ["first", "first:nf4", "first:int8", "first:int4", "other", "other:int4"]


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    folder: Path = tmp_path_factory.mktemp("models")
    save_two_models(folder)
    (folder / "models.toml").write_text(TABLES)
    settings = Settings(models=folder / "models.toml", cache=folder / "cache", data=folder / "data", threads=1)
    with serving(lambda: create_app(settings)) as url, httpx2.Client(base_url=url, timeout=60.0) as client:
        yield client


def chat(http: httpx2.Client, model: str, text: str = "Hello the world", **fields: object) -> dict:
    body = {"model": model, "messages": [{"role": "user", "content": text}], "temperature": 0, "max_tokens": 8}
    for _ in range(600):
        response = http.post("/v1/chat/completions", json={**body, **fields})
        if response.status_code != 503:
            break
        assert response.json()["error"]["code"] == "model_loading"
        time.sleep(0.05)
    assert response.status_code == 200, response.text
    return response.json()


def test_every_model_is_listed_under_the_same_names_whether_loaded_or_not(http):
    before = [model["id"] for model in http.get("/v1/models").json()["data"]]
    chat(http, "other")
    after = http.get("/v1/models").json()["data"]
    assert before == [model["id"] for model in after] == KEYS
    assert {model["name"] for model in after} == {"first", "other"}


def test_both_answer_and_each_reads_in_its_own_way(http):
    first, other = chat(http, "first"), chat(http, "other")
    assert (first["model"], other["model"]) == ("first", "other")
    assert first["usage"]["prompt_tokens"] > other["usage"]["prompt_tokens"]  # whose template says nothing beside
    contexts = {model["id"]: model["context_length"] for model in http.get("/v1/models").json()["data"]}
    assert (contexts["first"], contexts["other"]) == (512, 128)


def test_ids_and_forms_are_those_of_the_model_that_is_asked(http):
    chat(http, "other")
    ids = {
        model: http.post("/tokenize", json={"model": model, "content": "the world"}).json()["tokens"]
        for model in ("first", "other")
    }
    assert ids["first"] != ids["other"]
    assert http.post("/detokenize", json={"model": "other", "tokens": ids["other"]}).json()["content"] == "the world"
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"enum": ["the world"]}}}
    for model in ("first", "other", "first"):
        answer = chat(http, model, response_format=form, max_tokens=40)
        assert answer["choices"][0]["message"]["content"] == '"the world"'


def test_an_unknown_name_is_told_the_names_there_are(http):
    response = http.post(
        "/v1/chat/completions", json={"model": "second", "messages": [{"role": "user", "content": ""}]}
    )
    assert response.status_code == 404
    assert response.json()["error"]["message"] == (
        f"There is no model 'second' here; ask for one of: {', '.join(KEYS)}."
    )


def test_health_and_metrics_tell_the_models_apart(http):
    chat(http, "first"), chat(http, "other")
    assert http.get("/health").json()["model"] == "first"
    text = http.get("/metrics").text
    for name in ("first", "other"):
        assert f'myserve:engine_up{{model_name="{name}"}} 1.0' in text
        assert f'vllm:request_success_total{{finished_reason="length",model_name="{name}"}}' in text
    assert 'model_name="first:nf4"' not in text
