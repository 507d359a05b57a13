"""Ids that a tokenizer, a template or a configuration has and the model lacks: refused in words, harming nobody."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
import torch
from tokenizers import AddedToken

from myserve_ui.core.outputs import FinishReason
from myserve_ui.core.requests import CompletionRequest
from myserve_ui.core.sampling_params import SamplingParams
from myserve_ui.errors import InvalidRequestError
from myserve_ui.evaluation.fidelity import FidelityRequest, FidelityService
from myserve_ui.models.catalog import CatalogEntry
from myserve_ui.models.facts import find_end_tokens
from myserve_ui.models.loaded_model import LoadedModel
from myserve_ui.models.tiny import VOCAB_SIZE, build_tiny_loaded_model, build_tiny_model
from myserve_ui.models.tokenizers.tokenizer import HuggingFaceTokenizer
from myserve_ui.serving.chat_service import ChatService
from tests.conftest import MakeService, chat_request
from tests.support.tiny_checkpoint import CHATML, build_tiny_tokenizer

POISON = "a <x59> b"
SAYS_WHICH = r"'<x59>' is token 345 .*\[0, 320\) only. Leave it out"
TEMPLATE = CHATML.replace("<|im_start|>assistant", "<s41><|im_start|>assistant")


def load(entry: CatalogEntry, _on_progress: object = None) -> LoadedModel:
    """The tiny llama of 320 ids, under a tokenizer that was given sixty more; its entry names what else is odd."""
    hf_tokenizer = build_tiny_tokenizer(**({"chat_template": TEMPLATE} if entry.key == "template" else {}))
    first = len(hf_tokenizer)
    hf_tokenizer.add_tokens([f"<x{number}>" for number in range(first - 286, 350 - 286)])
    hf_tokenizer.add_tokens([AddedToken("<s41>", special=True)], special_tokens=True)
    loaded = build_tiny_loaded_model("llama")
    module = loaded.module
    assert module is not None
    if entry.key == "wide input":
        module.set_input_embeddings(torch.nn.Embedding(400, 64).requires_grad_(False))
    if entry.key == "narrow input":
        module.set_input_embeddings(torch.nn.Embedding(300, 64).requires_grad_(False))
    ends = frozenset({hf_tokenizer.eos_token_id})
    tokenizer = HuggingFaceTokenizer(hf_tokenizer, vocab_size=VOCAB_SIZE)
    return replace(loaded, tokenizer=tokenizer, eos_token_ids=ends, bos_token_id=None)


@pytest.fixture
async def service(make_service: MakeService) -> ChatService:
    return await make_service("extended", load=load)


def text(prompt: str | tuple[int, ...], **params: object) -> CompletionRequest:
    settings = {"temperature": 0.0, "max_tokens": 8, "ignore_eos": True, **params}
    return CompletionRequest(prompt, params=SamplingParams(**settings))  # type: ignore[arg-type]


async def answer(service: ChatService, request: CompletionRequest) -> tuple[list[int], FinishReason | None]:
    async with await service.start_completion(request) as stream:
        outputs = [output async for output in stream]
    return [token_id for output in outputs for token_id in output.token_ids], outputs[-1].finish_reason


async def test_a_text_with_an_unknown_id_is_refused_and_its_neighbours_are_not_harmed(service: ChatService) -> None:
    prompts = [f"neighbour {number}" for number in range(4)]
    alone = [await answer(service, text(prompt, max_tokens=40)) for prompt in prompts]
    running = [asyncio.create_task(answer(service, text(prompt, max_tokens=40))) for prompt in prompts]
    for _ in range(5):
        with pytest.raises(InvalidRequestError, match=SAYS_WHICH) as refused:
            await service.start_completion(text(POISON))
        assert refused.value.param == "prompt"
        await asyncio.sleep(0)
    assert await asyncio.gather(*running) == alone


async def test_every_way_in_refuses_an_unknown_id(service: ChatService) -> None:
    with pytest.raises(InvalidRequestError, match=SAYS_WHICH) as refused:
        await service.start_chat(chat_request(POISON))
    assert refused.value.param == "messages"
    with pytest.raises(InvalidRequestError, match=SAYS_WHICH):
        await service.tokenize(CompletionRequest(POISON))
    with pytest.raises(InvalidRequestError, match=SAYS_WHICH):
        await service.tokenize(chat_request(POISON))
    for ids in ((345,), (10**50,)):
        with pytest.raises(InvalidRequestError, match=r"in \[0, 320\)"):
            await service.start_completion(text(ids))
        with pytest.raises(InvalidRequestError, match=r"in \[0, 320\)"):
            await service.detokenize(ids, "")
    with pytest.raises(InvalidRequestError, match=r"in \[0, 320\), got 345"):
        await service.start_completion(text("a", stop_token_ids=(345,)))
    with pytest.raises(InvalidRequestError, match=r"in \[0, 320\), got 345"):
        await service.start_completion(text("a", logit_bias=((345, 1.0),)))
    with pytest.raises(InvalidRequestError, match=SAYS_WHICH):
        async for _ in FidelityService(service._pool).report(FidelityRequest("some text " + POISON)):
            pass
    assert (await answer(service, text("still here")))[1] is FinishReason.LENGTH


async def test_a_template_that_writes_an_unknown_id_is_refused_and_texts_are_not(make_service: MakeService) -> None:
    service = await make_service("template", load=load)
    with pytest.raises(InvalidRequestError, match=r"'<s41>' is token .*or of the chat template"):
        await service.start_chat(chat_request("hello"))
    assert (await answer(service, text("hello")))[1] is FinishReason.LENGTH


async def test_an_input_with_more_rows_than_the_output_takes_them_and_scores_none(make_service: MakeService) -> None:
    service = await make_service("wide input", load=load)
    repeated = text(POISON, repetition_penalty=1.3, presence_penalty=0.5, temperature=1.0, seed=3)
    assert (await answer(service, repeated))[1] is FinishReason.LENGTH
    with pytest.raises(InvalidRequestError, match=r"Token 345 has no log-probability"):
        await service.start_completion(text(POISON, logprobs=1, prompt_logprobs=True))
    assert await service.detokenize((345,), "") == "<x59>"


async def test_an_output_with_more_rows_than_the_input_never_says_them(make_service: MakeService) -> None:
    service = await make_service("narrow input", load=load)
    for seed in range(8):
        token_ids, reason = await answer(service, text("a", temperature=2.0, seed=seed, max_tokens=60))
        assert reason is FinishReason.LENGTH
        assert max(token_ids) < 300


@pytest.mark.parametrize("stated", [345, [5, 400], [], None, [-1], "</s>", [True, 2.5], (7, 10**30)])
def test_end_tokens_that_are_no_ids_of_the_model_are_left_out(stated: object) -> None:
    model, tokenizer = build_tiny_model("llama"), build_tiny_tokenizer()
    model.config.eos_token_id = None
    model.generation_config.eos_token_id = stated
    named = {each for each in (stated if isinstance(stated, list | tuple) else []) if each in (5, 7)}
    assert find_end_tokens(model, tokenizer, VOCAB_SIZE) == {tokenizer.eos_token_id} | named


async def test_a_minimum_length_with_an_end_token_beyond_the_vocabulary_goes_on(make_service: MakeService) -> None:
    def load_with_far_end(entry: CatalogEntry, _on_progress: object = None) -> LoadedModel:
        return replace(build_tiny_loaded_model("llama"), eos_token_ids=frozenset({257, 400}))

    service = await make_service("llama", load=load_with_far_end)
    request = text("a", min_tokens=8, ignore_eos=False)
    assert (await answer(service, request))[1] is FinishReason.LENGTH
