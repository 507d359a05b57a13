"""Ranking a few candidates first draws the very token that ranking them all would, and a block the very index."""

from __future__ import annotations

import itertools

import pytest
import torch

from myserve_ui.engine.sampling import draws
from myserve_ui.engine.sampling.draws import cut_ranks, draw_any, draw_from_nucleus, draw_ranked, find_best, pick
from tests.support.sampling import resolved

VOCAB = 5000
CUTS = [
    resolved(temperature=1.0, top_p=top_p, top_k=top_k, min_p=min_p)
    for top_p, top_k, min_p in itertools.product((0.1, 0.9, 1.0), (0, 5, 256, 257, 3000), (0.0, 0.1))
]


def rows(spread: float) -> torch.Tensor:
    return spread * torch.randn(len(CUTS), VOCAB, generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize("spread", [0.1, 1.0, 8.0])
@pytest.mark.parametrize("has_ties", [False, True])
def test_candidates_and_the_whole_vocabulary_give_the_same_token(monkeypatch, spread, has_ties):
    logits = rows(spread).round() if has_ties else rows(spread)
    uniforms = [index / len(CUTS) for index in range(len(CUTS))]
    drawn = draw_ranked(logits, CUTS, uniforms)
    monkeypatch.setattr(draws, "CANDIDATES", ())
    assert drawn.tolist() == draw_ranked(logits, CUTS, uniforms).tolist()


def test_a_peaked_row_is_settled_by_its_candidates(monkeypatch):
    asked = []
    likeliest = draws._likeliest
    monkeypatch.setattr(draws, "_likeliest", lambda *args: asked.append(args[1]) or likeliest(*args))
    draw_ranked(rows(8.0)[:1], [resolved(temperature=1.0, top_p=0.9)], [0.5])
    draw_ranked(rows(0.1)[:1], [resolved(temperature=1.0, top_p=0.9)], [0.5])
    assert asked == [256, 256, 2048, VOCAB]


@pytest.mark.parametrize("size", [1, 127, 128, 129, 1000])
def test_a_uniform_number_finds_its_place_in_the_running_sum(size):
    weights = torch.rand(1, size, generator=torch.Generator().manual_seed(size))
    cumulative = weights[0].double().cumsum(0)
    for uniform in (0.0, 0.25, 0.5, 0.999999):
        expected = int((cumulative <= uniform * cumulative[-1]).sum())
        assert pick(weights, [uniform]).item() == expected


@pytest.mark.parametrize("uniform", [0.0, 0.3, 1 - 2**-53])
def test_what_has_no_weight_is_never_picked(uniform):
    weights = torch.zeros(1, 700)
    weights[0, [130, 131, 400]] = torch.tensor([1e-30, 1.0, 0.5])
    assert pick(weights, [uniform]).item() in (130, 131, 400)


def test_a_draw_without_cuts_follows_the_distribution():
    logits = torch.tensor([[0.0, 1.0, 2.0, float("-inf")]]).expand(4000, -1)
    drawn = draw_any(logits, [resolved()] * 4000, [(index + 0.5) / 4000 for index in range(4000)])
    shares = torch.bincount(drawn, minlength=4) / 4000
    assert torch.allclose(shares, torch.softmax(logits[0], -1), atol=1e-3)


@pytest.mark.parametrize("vocab_size", [1, 2, 31, 33, 64, 1000, VOCAB])
@pytest.mark.parametrize("spread", [0.0, 0.1, 2.0, 9.0])
def test_a_nucleus_is_what_a_sorted_row_keeps_and_is_drawn_from_in_the_order_of_tokens(spread, vocab_size):
    cuts = [
        resolved(temperature=1.0, top_p=top_p, min_p=min_p)
        for top_p, min_p in itertools.product((1e-9, 0.3, 0.9, 0.999999, 1.0), (0.0, 1e-7, 0.2, 1.0))
    ]
    logits = spread * torch.randn(len(cuts), vocab_size, generator=torch.Generator().manual_seed(vocab_size))
    logits[::3] = logits[::3].round()  # ties
    logits[1::3, 1::2] = float("-inf")
    uniforms = [(7 * index % len(cuts)) / len(cuts) for index in range(len(cuts))]
    ranked, order = torch.softmax(logits, -1).sort(dim=-1, descending=True, stable=True)
    cut = cut_ranks(ranked, cuts, vocab_size) | (ranked == 0)
    kept = torch.zeros_like(ranked).scatter_(-1, order, ranked.masked_fill(cut, 0.0))
    expected = pick(kept, uniforms)
    actual = draw_from_nucleus(logits, cuts, uniforms)
    for row in (actual != expected).nonzero().flatten().tolist():  # a border that another order of adding moves
        sums = ranked[row].double().cumsum(0)
        assert (sums - cuts[row].top_p).abs().min() < 1e-6, (row, actual[row], expected[row])


@pytest.mark.parametrize("uniform", [0.0, 0.3, 1 - 2**-53])
def test_what_is_forbidden_is_never_drawn_from_a_nucleus(uniform):
    logits = torch.full((1, 700), float("-inf"))
    logits[0, [130, 131, 400]] = torch.tensor([-80.0, 1.0, 0.5])
    for top_p, min_p in ((1.0, 1e-46), (0.999999999, 0.0), (0.5, 0.0)):
        params = resolved(temperature=1.0, top_p=top_p, min_p=min_p)
        assert draw_from_nucleus(logits, [params], [uniform]).item() in (130, 131, 400)


def test_shares_of_a_nucleus_are_those_of_its_tokens():
    logits = torch.tensor([[0.5, 3.0, 1.0, 2.0, -1.0, float("-inf")]]).expand(4000, -1)
    drawn = draw_from_nucleus(logits, [resolved(top_p=0.9)] * 4000, [(index + 0.5) / 4000 for index in range(4000)])
    kept = torch.tensor([0.0, 3.0, 1.0, 2.0]).masked_fill(torch.tensor([True, False, False, False]), float("-inf"))
    assert torch.allclose(torch.bincount(drawn, minlength=4) / 4000, torch.softmax(kept, -1), atol=1e-3)


def test_rows_that_are_no_numbers_spoil_no_other():
    logits = torch.randn(4, 100, generator=torch.Generator().manual_seed(0))
    alone = draw_from_nucleus(logits[3:], [resolved(top_p=0.9)], [0.4])
    logits[0, 5], logits[1], logits[2, 7] = float("nan"), float("-inf"), float("inf")
    drawn = draw_from_nucleus(logits, [resolved(top_p=0.9)] * 4, [0.4] * 4)
    assert drawn.tolist() == [-1, -1, -1, alone[0]]
    best, _ = find_best(logits)
    assert torch.isfinite(best).tolist() == [False, False, False, True]


@pytest.mark.parametrize("vocab_size", [1, 32, 100, 4096])
def test_the_best_token_is_the_first_of_the_largest(vocab_size):
    logits = torch.randn(6, vocab_size, generator=torch.Generator().manual_seed(1)).round()
    logits[5] = float("-inf")
    values, tokens = find_best(logits)
    expected = [(row.max().item(), int((row == row.max()).nonzero()[0])) for row in logits]
    assert list(zip(values.tolist(), tokens.tolist(), strict=True)) == expected


@pytest.mark.parametrize("size", [31, 4096, 5000, 49152])
@pytest.mark.parametrize("count", [1, 5, 256, 2048])
def test_pieces_hold_what_topk_finds(size, count):
    logits = torch.randn(3, size, generator=torch.Generator().manual_seed(size))
    count = min(count, size)
    values, order = draws._top(logits, count)
    assert torch.equal(values, logits.topk(count).values)
    assert torch.equal(logits.gather(-1, order), values)
