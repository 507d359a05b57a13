"""Two models with different tokenizers of one size: what needs one vocabulary is refused, the rest is told."""

from __future__ import annotations

import json

import pytest

from myserve_ui.errors import InvalidRequestError
from myserve_ui.evaluation.comparisons import Comparisons
from myserve_ui.evaluation.evidence import AnswerPair
from myserve_ui.evaluation.fidelity import FidelityRequest
from myserve_ui.model_settings import catalog_of, load_options
from myserve_ui.models.loading.loader import load_model
from myserve_ui.serving.chat_service import ChatService
from myserve_ui.serving.engine_builder import EngineLimits
from myserve_ui.serving.engine_pool import EnginePool
from myserve_ui.settings import Settings
from myserve_ui.ui.compare.branch import OTHER_TOKENS, read_branch
from myserve_ui.ui.compare.evidence import evidence_view
from tests.evaluation.test_comparisons import asked, last
from tests.support.tiny_checkpoint import save_two_models

SAME_IDS = "zq zq zq. " * 8
"""No word of this is one token, so that both read it as the same ids, which mean other words elsewhere."""


@pytest.fixture
async def both(tmp_path):
    settings = Settings(model=tuple(map(str, save_two_models(tmp_path))), cache=tmp_path / "cache", threads=1)
    options = load_options(settings)
    pool = EnginePool(
        catalog_of(settings),
        lambda entry, report: load_model(entry, options=options, on_progress=report),
        EngineLimits(),
    )
    comparisons = Comparisons(ChatService(pool, grace=0.0), pool)
    yield comparisons
    await comparisons.chat.shut_down()


def test_what_is_compared_unasked_is_the_default_model(both: Comparisons):
    assert both.pair() == ("first", "first:nf4")


async def test_answers_speed_and_length_are_there_and_the_reason_why_no_evidence_is(both: Comparisons):
    document = await last(both.compare(asked(base="first", candidate="second")))
    for answer in (document.answers.base, document.answers.candidate):
        assert (answer.text, answer.error) and answer.usage.completion_tokens == 40
        assert answer.speed.tokens_per_second > 0
    assert document.evidence is None
    assert document.no_evidence_because.startswith("first and second read the prompt as different tokens")
    assert "These are two different models" in " ".join(document.notes)
    assert document.no_evidence_because in evidence_view(document)
    with pytest.raises(InvalidRequestError) as refused:
        read_branch({"text": json.dumps(document.as_json())}, "base", 3)
    assert refused.value.message == OTHER_TOKENS


async def test_a_report_is_refused_although_the_ids_of_this_text_agree(both: Comparisons):
    request = FidelityRequest(SAME_IDS, "first", "second", window=32, stride=32)
    with pytest.raises(InvalidRequestError, match="first and second read text as different tokens"):
        await last(both.report(request))
    alone = await last(both.perplexity(FidelityRequest(SAME_IDS, "second", window=32, stride=32)))
    assert alone.model == "second"


async def test_evidence_is_refused_although_the_ids_of_the_prompt_agree(both: Comparisons):
    with pytest.raises(InvalidRequestError, match="different tokens"):
        await both._fidelity.explain("first", "second", AnswerPair([1, 2], [3], [4]))
