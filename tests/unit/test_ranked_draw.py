"""Ranking a few candidates first draws the very token that ranking them all would, and a block the very index."""

from __future__ import annotations

import itertools

import pytest
import torch

from myserve_ui.core.sampling_params import SamplingParams
from myserve_ui.engine import ranked_draw
from myserve_ui.engine.ranked_draw import draw_any, draw_ranked, pick

VOCAB = 5000
CUTS = [
    SamplingParams(temperature=1.0, top_p=top_p, top_k=top_k, min_p=min_p)
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
    monkeypatch.setattr(ranked_draw, "CANDIDATES", ())
    assert drawn.tolist() == draw_ranked(logits, CUTS, uniforms).tolist()


def test_a_peaked_row_is_settled_by_its_candidates(monkeypatch):
    asked = []
    likeliest = ranked_draw._likeliest
    monkeypatch.setattr(ranked_draw, "_likeliest", lambda *args: asked.append(args[1]) or likeliest(*args))
    draw_ranked(rows(8.0)[:1], [SamplingParams(temperature=1.0, top_p=0.9)], [0.5])
    draw_ranked(rows(0.1)[:1], [SamplingParams(temperature=1.0, top_p=0.9)], [0.5])
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
    drawn = draw_any(logits, [(index + 0.5) / 4000 for index in range(4000)])
    shares = torch.bincount(drawn, minlength=4) / 4000
    assert torch.allclose(shares, torch.softmax(logits[0], -1), atol=1e-3)
