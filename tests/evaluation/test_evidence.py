"""Where two answers part, and whether rounding or quantisation decided."""

import pytest

from myserve_ui.core.requests import CompletionRequest
from myserve_ui.core.sampling_params import SamplingParams
from myserve_ui.evaluation.evidence import AnswerPair, Verdict, explain, find_split, judge
from myserve_ui.serving.engine_builder import EngineLimits
from tests.conftest import chat_request
from tests.evaluation.test_fidelity import load


@pytest.mark.parametrize(
    ("first", "second", "index"),
    [([], [], None), ([1, 2], [1, 2], None), ([1, 2], [1, 3], 1), ([1], [1, 2], 1), ([], [1], 0), ([9], [8], 0)],
)
def test_find_split(first, second, index):
    assert find_split(first, second) == index


def test_a_lead_within_the_noise_is_a_tie():
    assert judge(1e-5, 1e-5, greedy=True) is Verdict.TIE
    assert judge(0.5, 1e-5, greedy=True) is Verdict.CHANGED
    assert judge(0.5, 1e-5, greedy=False) is Verdict.DRAWN
    assert judge(0.5, 1e-5, greedy=True, is_one_model=False) is Verdict.OTHER_MODEL


async def answer(service, model, prompt):
    params = SamplingParams(temperature=0.0, max_tokens=40, ignore_eos=True)
    async with await service.start_completion(CompletionRequest(prompt, model, params)) as stream:
        return [token_id async for output in stream for token_id in output.token_ids]


@pytest.fixture
async def service(make_service):
    return await make_service("llama", "rough", load=load)


async def engines(service):
    for name in ("llama", "rough"):
        async for _progress in service.load(name):
            pass
    return service._pool.engine("llama"), service._pool.engine("rough")


def test_a_lead_over_a_noise_that_nobody_measured_is_no_verdict():
    assert judge(0.5, None, greedy=True) is Verdict.UNDECIDED
    assert judge(-1e-9, None, greedy=True) is Verdict.TIE
    assert judge(0.5, None, greedy=False) is Verdict.DRAWN


@pytest.mark.parametrize("max_num_seqs", [1, 2])
async def test_an_engine_with_no_place_beside_the_text_claims_no_noise_floor_of_nothing(make_service, max_num_seqs):
    limits = EngineLimits(debug=True, max_num_seqs=max_num_seqs)
    service = await make_service("llama", "rough", load=load, limits=limits)
    base, candidate = await engines(service)
    prompt = base.loaded.tokenizer.encode("Once upon a time")
    answers = [await answer(service, name, tuple(prompt)) for name in ("llama", "rough")]
    if max_num_seqs == 2:
        chat = chat_request(max_tokens=400, ignore_eos=True)
        async with await service.start_chat(chat) as neighbour:
            await anext(neighbour)
            document = await explain(base, candidate, AnswerPair(prompt, *answers))
    else:
        document = await explain(base, candidate, AnswerPair(prompt, *answers))
    assert document.noise_floor is None or document.noise_floor > 0
    if document.noise_floor is None:
        assert document.split.verdict == Verdict.UNDECIDED


async def test_the_split_of_two_precisions_is_explained(service):
    base, candidate = await engines(service)
    prompt = base.loaded.tokenizer.encode("Once upon a time")
    pair = AnswerPair(
        prompt, await answer(service, "llama", tuple(prompt)), await answer(service, "rough", tuple(prompt))
    )
    document = await explain(base, candidate, pair)
    split, rows = document.split, document.answers
    assert pair.base[: split.index] == pair.candidate[: split.index]
    assert split.verdict == Verdict.OTHER_MODEL  # by their names these are two
    assert split.top.base[0].id == pair.base[split.index]
    assert split.top.candidate[0].id == pair.candidate[split.index]
    assert 0 <= document.noise_floor < 1e-3 < split.margin
    assert [len(rows.base), len(rows.candidate)] == [40, 40]
    assert all(row.rank_base == 0 for row in rows.base)
    assert all(row.rank_candidate == 0 for row in rows.candidate)
    assert document.identical_share["32"] < 1


async def test_identical_answers_have_no_split(service):
    base, _ = await engines(service)
    prompt = base.loaded.tokenizer.encode("Once upon a time")
    ids = await answer(service, "llama", tuple(prompt))
    document = await explain(base, base, AnswerPair(prompt, ids, ids))
    assert document.split is None
    assert document.identical_share == {"32": 1.0}
    assert all(row.kld < 1e-6 and row.same_top for row in document.answers.base)


async def test_an_empty_answer_is_no_trouble(service):
    base, candidate = await engines(service)
    document = await explain(base, candidate, AnswerPair([65, 66], [], [67, 68]))
    assert (document.split, document.answers.base, len(document.answers.candidate)) == (None, (), 2)
