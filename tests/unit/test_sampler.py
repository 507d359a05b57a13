"""Every row is sampled by its own parameters and its own generator, whatever its neighbours are."""

import math
from collections import Counter

import pytest
import torch

from myserve_ui.core.engine_request import EngineRequest
from myserve_ui.core.sampling_params import SamplingDefaults, SamplingParams
from myserve_ui.engine.sampler import Sampler
from myserve_ui.engine.sequence import Sequence

VOCAB_SIZE = 50


def sequence_of(**params):
    resolved = SamplingParams(max_tokens=100, **params).resolve(SamplingDefaults())
    return Sequence(0, EngineRequest("r", (1,), resolved, arrival=0.0), lambda _ids: "")


def random_logits(rows=1, seed=0):
    return torch.randn(rows, VOCAB_SIZE, generator=torch.Generator().manual_seed(seed)) * 2


def draw_many(count=4000, logits=None, **params):
    sequences = [sequence_of(seed=seed, **params) for seed in range(count)]
    logits = random_logits() if logits is None else logits
    return Counter(Sampler(frozenset()).sample(logits.expand(count, -1).clone(), sequences))


@pytest.mark.parametrize("params", [{"temperature": 0.0}, {"temperature": 1e-4}, {"top_p": 0.0}, {"top_k": 1}])
def test_greedy_takes_the_likeliest(params):
    logits = random_logits()
    assert Sampler(frozenset()).sample(logits.clone(), [sequence_of(**params)]) == [logits.argmax().item()]


@pytest.mark.parametrize("params", [{"top_p": 1e-4}, {"min_p": 1.0}])
def test_the_narrowest_cut_is_greedy(params):
    assert set(draw_many(200, temperature=2.0, **params)) == {random_logits().argmax().item()}


def test_draws_follow_the_distribution():
    counts, total = draw_many(20000), 20000
    for token_id, probability in enumerate(torch.softmax(random_logits()[0], -1).tolist()):
        error = math.sqrt(probability * (1 - probability) / total)
        assert abs(counts[token_id] / total - probability) < 5 * error + 1e-4


def test_temperature_sharpens():
    top = random_logits().argmax().item()
    assert draw_many(temperature=0.3)[top] > draw_many(temperature=1.0)[top] > draw_many(temperature=2.0)[top]


def test_top_k_keeps_the_k_likeliest():
    assert set(draw_many(top_k=3)) == set(random_logits()[0].topk(3).indices.tolist())


def test_top_k_beyond_the_vocabulary_is_off():
    assert draw_many(top_k=10**9) == draw_many()


def test_top_p_keeps_the_smallest_set_that_reaches_it():
    probabilities, order = torch.softmax(random_logits()[0], -1).sort(descending=True)
    needed = int((probabilities.cumsum(-1) < 0.7).sum()) + 1
    assert set(draw_many(top_p=0.7)) == set(order[:needed].tolist())


def test_min_p_drops_what_is_unlikely_beside_the_likeliest():
    probabilities = torch.softmax(random_logits()[0], -1)
    kept = (probabilities >= 0.2 * probabilities.max()).nonzero()[:, 0].tolist()
    assert set(draw_many(min_p=0.2)) == set(kept)


def test_top_p_looks_at_what_top_k_left():
    logits = torch.tensor([[0.4, 0.3, 0.2, 0.1]]).log()
    assert set(draw_many(500, logits, top_k=2, top_p=0.55)) == {0}


def test_neighbours_do_not_change_a_seeded_row():
    logits = random_logits(8)
    alone = [Sampler(frozenset()).sample(logits[:1].clone(), [sequence_of(seed=7)])[0] for _ in range(3)]
    neighbours = [sequence_of(temperature=t, top_p=p) for t, p in [(0, 1), (2, 0.9), (1, 0.5), (0.7, 1)]]
    together = Sampler(frozenset()).sample(logits[:5].clone(), [sequence_of(seed=7), *neighbours])[0]
    assert {together} == set(alone)


def test_seeds_repeat_and_signs_matter():
    def draws(seed):
        sequence = sequence_of(seed=seed)
        return [Sampler(frozenset()).sample(random_logits(seed=i), [sequence])[0] for i in range(20)]

    assert draws(5) == draws(5)
    assert draws(5) != draws(-5)
    assert draws(2**63 - 1) != draws(-(2**63))


def test_end_tokens_wait_for_min_tokens():
    logits = torch.zeros(1, VOCAB_SIZE)
    logits[0, 3], logits[0, 4], logits[0, 5] = 9.0, 8.0, 7.0
    sequence = sequence_of(temperature=0.0, min_tokens=2, stop_token_ids=(4,))
    assert Sampler(frozenset({3})).sample(logits, [sequence]) == [5]


def test_a_row_of_nan_is_reported_and_the_others_go_on():
    logits = random_logits(3)
    logits[1] = float("nan")
    chosen = Sampler(frozenset()).sample(logits.clone(), [sequence_of(temperature=0.0) for _ in range(3)])
    assert chosen == [logits[0].argmax().item(), None, logits[2].argmax().item()]


def test_a_nan_in_a_drawn_row_is_reported_too():
    logits = random_logits(2)
    logits[0, 10] = float("nan")
    assert Sampler(frozenset()).sample(logits, [sequence_of(top_p=0.9), sequence_of()])[0] is None


def test_no_rows_no_work():
    assert Sampler(frozenset()).sample(torch.empty(0, VOCAB_SIZE), []) == []
