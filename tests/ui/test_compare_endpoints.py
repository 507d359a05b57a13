"""/compare, /fidelity and /perplexity over two tiny real engines, as gradio_client sees them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from gradio_client import Client
from gradio_client.exceptions import AppError

from tests.support.precisions import NOT_HERE, TEXT, make_comparisons
from tests.ui.live_server import page_app, serving

SHORT = {"text": TEXT[:60], "window": 64, "stride": 32}


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    def make_app() -> object:
        comparisons = make_comparisons()
        return page_app(comparisons.chat, comparisons=comparisons)

    with serving(make_app) as url:  # type: ignore[arg-type]
        client = Client(url, verbose=False)
        yield client
        client.close()


def test_the_endpoints_are_described_and_only_the_text_must_be_given(client: Client) -> None:
    endpoints = client.view_api(return_format="dict", print_info=False)["named_endpoints"]
    for name, needed in (("/compare", "prompt"), ("/fidelity", "text"), ("/perplexity", "text")):
        parameters = endpoints[name]["parameters"]
        assert [p["parameter_name"] for p in parameters if not p["parameter_has_default"]] == [needed]
        assert all(p["parameter_name"] in endpoints[name]["description"] for p in parameters)


def test_compare_streams_both_texts_and_ends_with_the_document(client: Client) -> None:
    *earlier, document = client.submit(prompt="Hello", max_tokens=30, seed=3, api_name="/compare")
    assert {tuple(texts) for texts in earlier} <= {(), ("base", "candidate")}
    assert document["answers"]["base"]["text"].startswith(earlier[0].get("base", ""))
    assert (document["base"], document["candidate"], document["settings"]["seed"]) == ("tiny", "tiny:nf4", 3)
    assert document["evidence"]["split"]["verdict"]


def test_fidelity_tells_its_progress_and_ends_with_a_small_report(client: Client) -> None:
    *earlier, report = client.submit(**SHORT, candidate="full", api_name="/fidelity")
    assert {"tokens_done", "tokens_total"} == set(earlier[-1])
    assert (report["kld"]["max"], report["tokens_scored"], report["tokens"]) == (0, 60, [])


def test_perplexity_is_the_reports(client: Client) -> None:
    report = client.predict(**SHORT, api_name="/fidelity")
    result = client.predict(**SHORT, model="nf4", tokens=True, api_name="/perplexity")
    assert result["perplexity"] == report["perplexity"]["candidate"]
    assert len(result["tokens"]) == 60


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("/compare", {"prompt": " "}, "prompt is empty"),
        ("/compare", {"prompt": "x", "base": "q8"}, "tiny:nf4"),
        ("/compare", {"prompt": "x", "max_tokens": 600}, "512"),
        ("/compare", {"prompt": "x", "timing": "later"}, "timing must be one of"),
        ("/fidelity", {"text": ""}, "The text has 1 tokens"),
        ("/fidelity", {**SHORT, "stride": 0}, "stride must be in"),
        ("/fidelity", {**SHORT, "candidate": "other"}, "different tokens"),
        ("/perplexity", {**SHORT, "model": "int8"}, NOT_HERE),
        ("/perplexity", {**SHORT, "window": "x"}, "window must be a whole number of tokens, got 'x'"),
        ("/perplexity", {**SHORT, "window": 16.5}, "window must be a whole number"),
        ("/perplexity", {**SHORT, "stride": [1]}, "stride must be a whole number"),
        ("/perplexity", {**SHORT, "text": 5}, "text must be a text"),
        ("/perplexity", {**SHORT, "model": ["nf4"]}, "model must be a text"),
        ("/perplexity", {**SHORT, "tokens": "no"}, "tokens must be true or false"),
        ("/fidelity", {**SHORT, "stride": True}, "stride must be a whole number"),
        ("/fidelity", {**SHORT, "text": None}, "text must be a text"),
        ("/fidelity", {**SHORT, "candidate": 5}, "candidate must be a text"),
        ("/compare", {"prompt": "x", "system_prompt": 5}, "system_prompt must be a text"),
        ("/compare", {"prompt": "x", "base": {}}, "base must be a text"),
        ("/compare", {"prompt": "x", "temperature": "hot"}, "temperature must be a number"),
        ("/compare", {"prompt": "x", "seed": "x"}, "seed must be a whole number"),
        ("/compare", {"prompt": "x", "max_tokens": "x"}, "max_tokens must be a whole number"),
        ("/compare", {"prompt": "x", "timing": 5}, "timing must be one of"),
        ("/compare", {"prompt": "x", "evidence": "x"}, "evidence must be true or false"),
    ],
)
def test_a_wrong_call_fails_with_the_sentence_and_the_next_works(
    client: Client, name: str, arguments: dict[str, object], words: str
) -> None:
    with pytest.raises(AppError, match=words):
        client.predict(**arguments, api_name=name)
    assert client.predict(**SHORT, api_name="/perplexity")["tokens_scored"] == 60
