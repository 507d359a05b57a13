"""The formulas, against numbers worked out by hand and against identities that must hold."""

import math

import pytest
import torch

from myserve_ui.errors import GenerationFailedError
from myserve_ui.evaluation.scoring import score_tokens
from myserve_ui.evaluation.statistics import estimate, percentiles, perplexity

P = torch.tensor([[0.5, 0.25, 0.125, 0.125]])
Q = torch.tensor([[0.25, 0.5, 0.125, 0.125]])


def random_logits(seed, rows=200, vocab=500):
    return torch.randn(rows, vocab, generator=torch.Generator().manual_seed(seed)) * 3


def test_by_hand():
    scores = score_tokens(P.log(), Q.log(), [1])
    assert scores.nll_base.item() == pytest.approx(math.log(4))
    assert scores.nll_candidate.item() == pytest.approx(math.log(2))
    assert scores.kld.item() == pytest.approx(0.25 * math.log(2))  # 0.5 ln 2 - 0.25 ln 2
    assert scores.delta_p.item() == pytest.approx(0.25)
    assert (scores.base_rank.item(), scores.candidate_rank.item(), scores.same_top.item()) == (1, 0, False)
    assert scores.max_difference.item() == pytest.approx(math.log(2))


def test_a_model_against_itself_loses_nothing():
    logits = random_logits(0)
    scores = score_tokens(logits, logits, [3] * 200)
    assert scores.kld.max() == 0
    assert scores.same_top.all()
    assert scores.delta_p.abs().max() == 0
    assert scores.overlap.min() == 1


def test_divergence_is_that_of_torch_and_never_negative():
    base, candidate = random_logits(1), random_logits(2)
    scores = score_tokens(base, candidate, [0] * 200)
    logs = torch.log_softmax(base.double(), -1), torch.log_softmax(candidate.double(), -1)
    expected = torch.nn.functional.kl_div(logs[1], logs[0], log_target=True, reduction="none").sum(-1)
    assert torch.allclose(scores.kld.double(), expected, rtol=1e-4)
    nearly = score_tokens(base, base + 1e-6 * candidate, [0] * 200)
    assert (nearly.kld >= 0).all()


def test_uniform_logits_give_the_size_of_the_vocabulary_as_perplexity():
    scores = score_tokens(torch.zeros(50, 500), torch.zeros(50, 500), list(range(50)))
    assert perplexity(scores.nll_base).value == pytest.approx(500)


def test_more_rows_than_at_once_are_scored_as_each_alone():
    base, candidate, ids = random_logits(3), random_logits(4), list(range(200))
    together = score_tokens(base, candidate, ids)
    alone = score_tokens(base[150:151], candidate[150:151], ids[150:151])
    assert together.kld[150] == pytest.approx(alone.kld[0].item())
    assert together.base_rank[150] == alone.base_rank[0]


def test_standard_errors_and_percentiles_by_hand():
    values = torch.tensor([1.0, 2.0, 3.0, 4.0])
    assert estimate(values).value == 2.5
    assert estimate(values).se == pytest.approx(math.sqrt(5 / 3) / 2)
    assert estimate(values[:1]).se == 0.0
    ranked = percentiles(torch.arange(1, 1001).float())
    assert ranked == {"median": 500, "p90": 900, "p95": 950, "p99": 990, "p999": 999, "max": 1000}
    assert perplexity(torch.full((4,), math.log(7))).value == pytest.approx(7)


def test_tokens_that_are_ruled_out_change_nothing():
    base, candidate = random_logits(5, 3, 12), random_logits(6, 3, 12)
    ruled_out = [torch.cat([logits, torch.full((3, 4), -math.inf)], dim=-1) for logits in (base, candidate)]
    plain, padded = score_tokens(base, candidate, [0, 1, 2]), score_tokens(*ruled_out, [0, 1, 2])
    assert torch.allclose(plain.kld, padded.kld, atol=1e-6)
    assert torch.equal(plain.nll_candidate, padded.nll_candidate)
    assert torch.allclose(plain.max_difference, padded.max_difference)


@pytest.mark.parametrize(("side", "number"), [(0, 2), (1, 1)])
def test_a_token_that_cannot_be_has_no_score(side, number):
    """What the candidate alone rules out makes the divergence infinite at every token."""
    logits = [random_logits(5, 3, 12), random_logits(6, 3, 12)]
    logits[side] = logits[side].index_fill(1, torch.tensor([5]), -math.inf)
    with pytest.raises(GenerationFailedError, match=f"Scored token {number} has no score"):
        score_tokens(*logits, [0, 5, 2])
