"""Names, steps and documents of comparisons, over two real engines."""

from __future__ import annotations

import json

import pytest

from myserve_ui.errors import InvalidRequestError, ModelNotFoundError
from myserve_ui.evaluation.comparison_document import Comparison
from myserve_ui.evaluation.comparisons import Comparisons
from myserve_ui.evaluation.fidelity import FidelityRequest
from myserve_ui.serving.compare_service import CompareRequest, Side
from tests.conftest import chat_request
from tests.support.precisions import NOT_HERE, TEXT


async def last(steps):
    return [step async for step in steps][-1].document


def asked(text: str = "Hello", base: str = "", candidate: str = "", **params: object) -> CompareRequest:
    return CompareRequest(chat_request(text, **{"max_tokens": 40, "ignore_eos": True, **params}), base, candidate)


@pytest.mark.parametrize(
    ("names", "keys"),
    [
        (("", ""), ("tiny", "tiny:nf4")),
        (("full", "nf4"), ("tiny", "tiny:nf4")),
        (("nf4", "full"), ("tiny:nf4", "tiny")),
        (("other", "tiny:nf4"), ("other", "tiny:nf4")),
    ],
)
async def test_a_bare_precision_is_the_default_models(comparisons, names, keys):
    assert comparisons.pair(*names) == keys


async def test_an_unknown_name_is_refused_with_the_names_there_are(comparisons):
    with pytest.raises(ModelNotFoundError, match="tiny:nf4"):
        comparisons.pair("q8_0")


async def test_a_document_has_both_answers_their_numbers_and_the_evidence(comparisons):
    document = await last(comparisons.compare(asked(seed=7)))
    assert Comparison.read(json.dumps(document.as_json(), allow_nan=False)) == document
    base, candidate = (document.answers.of(side) for side in Side)
    assert base.usage.completion_tokens == candidate.usage.completion_tokens == 40
    assert base.prompt_token_ids == candidate.prompt_token_ids
    assert base.speed.tokens_per_second > 0
    assert document.settings.seed == 7
    assert document.memory.candidate.bits_per_parameter == 8
    split = document.evidence.split
    assert split.verdict == "quantisation changed the choice"
    assert base.token_ids[: split.index] == candidate.token_ids[: split.index]
    assert base.token_ids[split.index] != candidate.token_ids[split.index]


async def test_measured_speed_is_told_and_nothing_is_claimed_beyond_it(comparisons):
    document = await last(comparisons.compare(asked(), evidence=False))
    assert document.measured[0].startswith("Measured in this run")
    assert document.evidence is None
    assert any("expanded again before every product" in note for note in document.notes)


async def test_a_model_against_itself_is_the_same_answer(comparisons):
    document = await last(comparisons.compare(asked(candidate="full")))
    assert document.evidence.split is None
    assert max(token.kld for token in document.evidence.answers.base) == 0


async def test_models_that_read_differently_have_answers_but_no_evidence(comparisons):
    document = await last(comparisons.compare(asked(candidate="other")))
    assert document.evidence is None
    assert "different tokens" in document.no_evidence_because
    assert document.answers.candidate.token_ids


async def test_a_precision_that_is_not_possible_is_told_on_its_side(comparisons):
    document = await last(comparisons.compare(asked(candidate="int8")))
    assert document.answers.candidate.error == NOT_HERE
    assert document.answers.base.text


@pytest.mark.parametrize("max_tokens", [513, None])
async def test_an_answer_too_long_for_evidence_is_refused(comparisons, max_tokens):
    with pytest.raises(InvalidRequestError, match="512"):
        await last(comparisons.compare(asked(max_tokens=max_tokens)))


async def test_perplexity_of_one_model_is_that_of_its_fidelity_report(comparisons: Comparisons):
    request = FidelityRequest(TEXT, "", "", window=64, stride=32)
    alone = await last(comparisons.perplexity(request))
    report = await last(comparisons.report(request))
    assert alone.perplexity == report.perplexity.base
    assert (alone.kind, alone.model, len(alone.tokens)) == ("perplexity", "tiny", len(TEXT))
    nf4 = await last(comparisons.perplexity(FidelityRequest(TEXT, "nf4", window=64, stride=32)))
    assert nf4.perplexity == report.perplexity.candidate


async def test_a_report_of_models_with_other_tokens_is_refused(comparisons):
    with pytest.raises(InvalidRequestError, match="different tokens"):
        await last(comparisons.report(FidelityRequest(TEXT, "", "other", window=64, stride=32)))


async def test_a_window_that_would_take_too_much_memory_is_refused(comparisons):
    with pytest.raises(InvalidRequestError, match="may be 512"):
        await last(comparisons.report(FidelityRequest(TEXT, window=4096)))


@pytest.mark.parametrize("side", ["base", "candidate"])
async def test_an_unknown_name_is_refused_by_the_field_that_it_came_in(comparisons, side):
    with pytest.raises(ModelNotFoundError) as refused:
        await last(comparisons.report(FidelityRequest("some text", **{side: "unknown"})))
    assert refused.value.param == side
