"""What nobody asked for is fitted to a short context; what was asked for and does not fit is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from myserve_ui.api.completions.protocol import PlainBody
from myserve_ui.api.evaluation import CompareBody, FidelityBody
from myserve_ui.core.requests import CompletionRequest
from myserve_ui.core.sampling_params import SamplingParams
from myserve_ui.errors import ContextLengthExceededError, InvalidRequestError
from myserve_ui.evaluation.comparisons import Comparisons
from myserve_ui.models.tiny import build_tiny_loaded_model
from myserve_ui.serving.chat_service import ChatService
from tests.conftest import MakeService

CONTEXT = 64
PROMPT = "p" * 55


@pytest.fixture
async def service(make_service: MakeService) -> ChatService:
    short = replace(build_tiny_loaded_model("llama"), context_length=CONTEXT)
    return await make_service("llama", load=lambda entry, _: short)


async def count(service: ChatService, request: CompletionRequest) -> int:
    async with await service.start_completion(request) as stream:
        return [output async for output in stream][-1].usage.total_tokens


async def test_a_completion_fills_the_room_that_is_left(service: ChatService) -> None:
    greedy = SamplingParams(temperature=0.0, ignore_eos=True)
    assert await count(service, CompletionRequest(PROMPT, params=greedy)) == CONTEXT
    assert await count(service, CompletionRequest("p" * 7, params=greedy)) == 8 + 16
    with pytest.raises(ContextLengthExceededError, match="max_tokens is 16"):
        await service.start_completion(CompletionRequest(PROMPT, params=replace(greedy, max_tokens=16)))


async def test_the_plain_routes_length_is_fitted_and_an_asked_one_refused(service: ChatService) -> None:
    assert await count(service, PlainBody(prompt=PROMPT).to_request()) <= CONTEXT
    assert await count(service, PlainBody(prompt=PROMPT, max_new_tokens=None).to_request()) <= CONTEXT
    with pytest.raises(ContextLengthExceededError):
        await service.start_completion(PlainBody(prompt=PROMPT, max_new_tokens=128).to_request())


async def test_a_report_s_windows_are_fitted_and_asked_ones_refused(service: ChatService) -> None:
    comparisons = Comparisons(service, service._pool)
    body = {"text": "word " * 40, "base": "full", "candidate": "full"}
    steps = [step async for step in comparisons.report(FidelityBody(**body).to_request())]
    assert steps[-1].document is not None
    assert (steps[-1].document.window, steps[-1].document.stride) == (CONTEXT, CONTEXT // 2)
    for asked in ({"window": 512}, {"stride": 256}, {"window": 32, "stride": 33}):
        with pytest.raises(InvalidRequestError, match=next(iter(asked)) if len(asked) == 1 else "stride"):
            async for _ in comparisons.report(FidelityBody(**body, **asked).to_request()):
                pass


async def test_a_comparison_s_length_is_fitted_and_an_asked_one_is_told_as_the_reason(service: ChatService) -> None:
    comparisons = Comparisons(service, service._pool)
    pair = {"prompt": "p" * 30, "base": "full", "candidate": "full", "evidence": False}
    steps = [step async for step in comparisons.compare(CompareBody(**pair).to_request(), evidence=False)]
    document = steps[-1].document
    assert document is not None
    assert [answer.error for answer in (document.answers.base, document.answers.candidate)] == [None, None]
    assert document.settings.max_tokens == 128
    asked = CompareBody(**pair, max_tokens=128).to_request()
    refused = [step async for step in comparisons.compare(asked, evidence=False)][-1].document
    assert refused is not None
    assert "max_tokens is 128" in refused.answers.base.error
