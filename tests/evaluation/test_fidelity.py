"""Reports over tiny real models, through the engines that serve users."""

import asyncio
import math

import pytest
import torch

from myserve_ui.errors import GenerationFailedError, InvalidRequestError, OverloadedError
from myserve_ui.evaluation.fidelity import FidelityRequest, FidelityService
from myserve_ui.evaluation.scoring import collect_logits, measure_noise
from myserve_ui.models.tiny import build_tiny_loaded_model, build_tiny_model
from myserve_ui.serving.engine_builder import EngineLimits
from tests.conftest import chat_request

TEXT = "The quick brown fox jumps over the lazy dog, again and again. " * 4


def load(entry, on_progress):
    """ "llama" as it is, "rough" with its weights rounded, "flat" with a head of zeros."""
    loaded = build_tiny_loaded_model("llama")
    if entry.key == "rough":
        for parameter in loaded.module.parameters():
            parameter.data = (parameter.data * 16).round() / 16
    if entry.key == "flat":
        loaded.module.get_output_embeddings().weight.data.zero_()
    return loaded


@pytest.fixture
async def service(make_service):
    return await make_service("llama", "rough", "flat", load=load)


async def report(service, **fields):
    request = FidelityRequest(
        **{"text": TEXT, "base": "llama", "candidate": "rough", "window": 64, "stride": 32, **fields}
    )
    return [progress async for progress in FidelityService(service._pool).report(request)]


async def test_a_report_has_every_number_and_its_progress(service):
    steps = await report(service)
    document = steps[-1].document
    assert [step.tokens_done for step in steps] == sorted(step.tokens_done for step in steps)
    assert document.tokens_scored == steps[-1].tokens_total == len(document.tokens) == len(TEXT)
    assert document.kld.mean > 0
    assert 0 < document.same_top.share < 1
    assert document.kld.median <= document.kld.p90 <= document.kld.max


async def test_a_model_against_itself(service):
    document = (await report(service, candidate="llama"))[-1].document
    assert document.kld.max == 0
    assert (document.ln_ratio.mean, document.ln_ratio.se) == (0, 0)
    assert document.same_top.share == 1


async def test_uniform_logits_give_the_vocabulary_as_perplexity(service):
    document = (await report(service, base="flat", candidate="flat"))[-1].document
    assert document.perplexity.base.value == pytest.approx(320, rel=1e-5)


async def test_perplexity_equals_a_plain_forward(service):
    document = (await report(service, window=512, stride=256))[-1].document
    engine = service._pool.engine("llama")
    ids = torch.tensor([engine.loaded.tokenizer.encode(TEXT)])
    logits = build_tiny_model("llama")(input_ids=ids, use_cache=False).logits[0, :-1].double()
    expected = torch.nn.functional.cross_entropy(logits, ids[0, 1:]).exp().item()
    assert document.perplexity.base.value == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("stride", [64, 32, 1])
async def test_every_stride_scores_each_token_once(service, stride):
    document = (await report(service, text=TEXT[:100], stride=stride))[-1].document
    assert document.tokens_scored == 100


async def test_scores_do_not_change_while_others_chat(service):
    async def chat():
        async with await service.start_chat(chat_request(max_tokens=120, ignore_eos=True)) as stream:
            return [output async for output in stream]

    alone = (await report(service))[-1].document
    beside, *_ = await asyncio.gather(report(service), chat(), chat())
    assert beside[-1].document.kld.mean == pytest.approx(alone.kld.mean, rel=1e-3)


async def test_noise_is_far_below_the_loss(service):
    engine = service._pool.engine("llama")
    ids = engine.loaded.tokenizer.encode(TEXT)
    noise = await measure_noise(engine, ids)
    assert noise.kld.mean() < 1e-6
    assert noise.same_top.all()


@pytest.mark.parametrize("length", [20, 128, 200])
async def test_noise_is_measured_in_batches_of_another_shape(service, length):
    engine = service._pool.engine("llama")
    runner, shapes = engine.worker._engine.runner, []
    forward = runner.forward

    def spy(batch):
        shapes.append([chunk.length for chunk in batch.chunks])
        return forward(batch)

    runner.forward = spy
    await measure_noise(engine, [5] * length)
    border = next(index for index, step in enumerate(shapes) if len(step) == 2)
    alone, beside = shapes[:border], shapes[border:]
    assert beside[0][0] == min(37, length)
    assert [sum(step) for step in alone] != [sum(step) for step in beside]


@pytest.mark.parametrize("length", [20, 128, 200])
async def test_noise_is_measured_without_a_neighbour_where_there_is_no_place_for_one(make_service, length):
    service = await make_service("llama", load=load, limits=EngineLimits(debug=True, max_num_seqs=1))
    engine = service._pool.engine("llama")
    runner, shapes = engine.worker._engine.runner, []
    forward = runner.forward

    def spy(batch):
        shapes.append([chunk.length for chunk in batch.chunks])
        return forward(batch)

    runner.forward = spy
    noise = await measure_noise(engine, [5] * length)
    assert max(map(len, shapes)) == 1
    assert sum(map(sum, shapes)) == 3 * length + 2 * min(37, length)
    assert noise is None or noise.max_difference.max() > 0


async def test_noise_is_not_measured_where_nothing_longer_fits(make_service):
    limits = EngineLimits(debug=True, max_num_seqs=1, max_model_len=64)
    service = await make_service("llama", load=load, limits=limits)
    assert await measure_noise(service._pool.engine("llama"), [5] * 64) is None


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("side", ["base", "candidate"])
async def test_values_that_are_not_numbers_end_a_report_with_a_sentence(service, value, side):
    name = {"base": "llama", "candidate": "rough"}[side]
    async for _progress in service.load(name):
        pass
    runner = service._pool.engine(name).worker._engine.runner
    forward = runner.forward

    def broken(batch):
        logits = forward(batch).clone()
        logits[len(logits) // 2] = value
        return logits

    runner.forward = broken
    with pytest.raises(GenerationFailedError, match=f"{name} computed values that are not numbers before token"):
        await report(service)


async def test_a_loss_beyond_all_bounds_ends_a_report_with_a_sentence(service):
    async for _progress in service.load("llama"):
        pass
    runner = service._pool.engine("llama").worker._engine.runner
    forward = runner.forward
    runner.forward = lambda batch: forward(batch) * 1e30
    with pytest.raises(GenerationFailedError, match=r"mean loss|no score"):
        await report(service, candidate="llama")


async def test_only_the_tokens_asked_for_are_scored(service):
    engine = service._pool.engine("llama")
    ids = engine.loaded.tokenizer.encode(TEXT)
    whole = await collect_logits(engine, ids)
    part = await collect_logits(engine, ids, first_scored=200)
    assert len(part) == len(ids) - 200
    assert torch.allclose(part, whole[199:], atol=1e-3)


async def test_one_report_at_a_time_and_a_stopped_one_makes_way(service):
    fidelity = FidelityService(service._pool)
    request = FidelityRequest(TEXT, "llama", "llama", window=64, stride=1)
    running = fidelity.report(request)
    await anext(running)
    with pytest.raises(OverloadedError):
        await anext(fidelity.report(request))
    await running.aclose()
    assert await anext(fidelity.report(request))


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"text": ""}, "text"),
        ({"text": "x" * 20000}, "text"),
        ({"stride": 0}, "stride"),
        ({"window": 1}, "window"),
        ({"window": 9999}, "window"),
    ],
)
async def test_what_cannot_be_scored_is_refused_by_name(service, fields, param):
    with pytest.raises(InvalidRequestError) as caught:
        await report(service, **fields)
    assert caught.value.param == param
    assert not math.isnan((await report(service, text=TEXT[:80]))[-1].document.kld.mean)
