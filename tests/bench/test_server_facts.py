"""What a server says of its models, and why it says nothing."""

import httpx2
import pytest

from myserve_ui.bench.client.bounded_answer import status_words
from myserve_ui.bench.client.client import Target
from myserve_ui.bench.client.server_facts import Listing, ask_models, choose_targets
from myserve_ui.bench.machine.local import _computes_here
from myserve_ui.core.model_info import LoadState, ModelInfo
from myserve_ui.errors import InvalidRequestError, ModelNotFoundError

LISTED = {"data": [{"id": "a"}, {"id": "b:nf4", "precision": "nf4"}]}


async def ask(url="http://x/v1", **answer):
    def respond(_request):
        if "raises" in answer:
            raise answer["raises"]
        return httpx2.Response(**{"status_code": 200} | answer)

    return await ask_models(Target(url, ""), transport=httpx2.MockTransport(respond))


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"raises": httpx2.ConnectError("no")}, "http://x/v1 cannot be reached."),
        ({"raises": httpx2.ReadTimeout("slow")}, "http://x/v1 did not answer in time."),
        (
            {"status_code": 401, "json": {"error": {"message": "Wrong key."}}},
            "http://x/v1/models answers HTTP 401: Wrong key.",
        ),
        ({"status_code": 404, "url": "http://x"}, "http://x/models answers HTTP 404; does the URL end in /v1?"),
        ({"status_code": 404}, "http://x/v1/models answers HTTP 404."),
        ({"text": "<html>", "url": "http://x"}, "http://x/models answers no list of models; does the URL end in /v1?"),
        ({"json": {"data": [3]}}, "http://x/v1/models answers no list of models."),
        ({"json": {"data": []}}, "http://x/v1 lists no models; name the one to measure."),
    ],
)
async def test_a_server_without_models_has_a_reason(answer, words):
    listing = await ask(**answer)
    assert listing == Listing((), words)
    with pytest.raises(InvalidRequestError) as refused:
        choose_targets(Target("http://x/v1", ""), listing, ())
    assert refused.value.message == words
    assert choose_targets(Target("http://x/v1", "m"), listing, ())[0].target.model == "m"


@pytest.mark.parametrize(
    "answer",
    [
        {"text": "[" * 100_000},
        {"text": "9" * 5000},
        {"json": 5},
        {"json": {"data": {"id": "a"}}},
        {"json": {"data": [{"id": 5}, {"id": ""}, {"id": "a\nb"}, {"id": "x" * 501}, {"id": None}, {}, None]}},
        {"content": b"[" + b" " * 2**24},
        {"content": b"no gzip", "headers": {"content-encoding": "gzip"}},
    ],
)
async def test_a_list_that_is_none_is_told(answer):
    listing = await ask(**answer)
    assert listing.models == () and listing.problem.startswith("http://x/v1")


async def test_what_is_told_of_a_model_has_a_type_and_a_bound():
    numbers = {"num_parameters": 10**400, "weight_bytes": True, "context_length": -1, "bytes_per_step": "5"}
    (info,) = (
        await ask(json={"data": [None, {"id": "a", "name": "A\x1b[2J" + "x" * 500, "dtype": 5} | numbers]})
    ).models
    assert (info.id, info.name[:5], len(info.name), info.dtype) == ("a", "A [2J", 120, None)
    assert info.num_parameters is info.weight_bytes is info.context_length is info.bytes_per_step is None


async def test_a_bare_list_is_read_and_a_long_one_is_cut():
    listing = await ask(json=[{"id": str(number)} for number in range(20_000)])
    assert len(listing.models) == 10_000


@pytest.mark.parametrize(
    ("device", "dtype"), [("moon", "float32"), ("cpu", "nn"), ("cpu", "int8"), ("cuda:99", "float16"), ("", "")]
)
def test_a_place_that_this_machine_does_not_have_is_not_measured(device, dtype):
    assert not _computes_here(ModelInfo("m", "m", "full", LoadState.READY, dtype=dtype, device=device))


async def test_the_first_listed_model_or_the_named_one_is_chosen():
    listing = await ask(json=LISTED)
    assert [named.target.model for named in choose_targets(Target("http://x/v1", ""), listing, ())] == ["a"]
    chosen = choose_targets(Target("http://x/v1", "b:nf4,a"), listing, ())
    assert [(named.target.model, named.precision) for named in chosen] == [("b:nf4", "nf4"), ("a", "a")]
    assert choose_targets(Target("http://x/v1", ""), listing, ["nf4"])[0].target.model == "b:nf4"


async def test_a_model_that_a_server_does_not_list_is_refused():
    with pytest.raises(ModelNotFoundError, match="has no model 'banana'; it lists a, b:nf4"):
        choose_targets(Target("http://x/v1", "a,banana"), await ask(json=LISTED), ())


def test_a_status_without_words_has_no_colon():
    assert status_words(httpx2.Response(500)) == "HTTP 500"
    assert status_words(httpx2.Response(500, json={"error": {"message": "It broke."}})) == "HTTP 500: It broke"
