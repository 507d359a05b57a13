"""Every row is sampled by its own parameters and its own generator, whatever its neighbours are."""

import math
from collections import Counter

import pytest
import torch

from myserve_ui.engine.sampling.adjustments import add_penalties_and_bias, penalise_repetition
from myserve_ui.engine.sampling.sampler import Sampler
from myserve_ui.engine.sequence import EngineRequest, Sequence
from tests.support.sampling import resolved

VOCAB_SIZE = 50


def sequence_of(prompt=(1,), **params):
    return Sequence(0, EngineRequest("r", prompt, resolved(max_tokens=100, **params), arrival=0.0), lambda _ids: "")


def choose(logits, *sequences, eos=frozenset()):
    return Sampler(eos).sample(logits.clone(), list(sequences)).token_ids


def random_logits(rows=1, seed=0):
    return torch.randn(rows, VOCAB_SIZE, generator=torch.Generator().manual_seed(seed)) * 2


def draw_many(count=4000, logits=None, **params):
    sequences = [sequence_of(seed=seed, **params) for seed in range(count)]
    logits = random_logits() if logits is None else logits
    return Counter(choose(logits.expand(count, -1), *sequences))


@pytest.mark.parametrize("params", [{"temperature": 0.0}, {"temperature": 1e-4}, {"top_p": 0.0}, {"top_k": 1}])
def test_greedy_takes_the_likeliest(params):
    logits = random_logits()
    assert choose(logits, sequence_of(**params)) == [logits.argmax().item()]


@pytest.mark.parametrize("params", [{"top_p": 1e-4}, {"min_p": 1.0}])
def test_the_narrowest_cut_is_greedy(params):
    assert set(draw_many(200, temperature=2.0, **params)) == {random_logits().argmax().item()}


def test_logits_that_a_temperature_makes_infinite_are_no_token_and_spoil_no_neighbour():
    logits = random_logits(2)
    alone = choose(logits[1:], sequence_of(temperature=0.1, top_p=0.9, seed=1))
    logits[0, 7] = 3e38
    rows = [sequence_of(temperature=0.1, top_p=0.9, seed=1) for _ in range(2)]
    assert choose(logits, *rows) == [None, *alone]


@pytest.mark.parametrize("penalty", [1e-300, 1e-46, 1e-38, 1e-30, 1e6])
@pytest.mark.parametrize("params", [{"temperature": 0.0}, {"temperature": 0.02}, {"temperature": 0.1, "top_p": 0.9}])
def test_an_extreme_repetition_penalty_takes_or_leaves_the_repeated_token(penalty, params):
    logits = random_logits()
    token = int(logits.argmax())
    chosen = choose(logits, sequence_of(prompt=(token,), repetition_penalty=penalty, seed=3, **params))
    assert (chosen == [token]) == (penalty < 1)
    assert choose(logits * float("nan"), sequence_of(prompt=(token,), repetition_penalty=penalty, **params)) == [None]
    logits[0, token + 1 :] = logits[0, :token] = -1.0
    logits[0, token] = 0.0
    assert choose(logits, sequence_of(prompt=(token,), repetition_penalty=penalty, temperature=0.0)) == [token]


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
    alone = [choose(logits[:1], sequence_of(seed=7))[0] for _ in range(3)]
    neighbours = [sequence_of(temperature=t, top_p=p) for t, p in [(0, 1), (2, 0.9), (1, 0.5), (0.7, 1)]]
    together = choose(logits[:5], sequence_of(seed=7), *neighbours)[0]
    assert {together} == set(alone)


def test_seeds_repeat_and_signs_matter():
    def draws(seed):
        sequence = sequence_of(seed=seed)
        return [choose(random_logits(seed=i), sequence)[0] for i in range(20)]

    assert draws(5) == draws(5)
    assert draws(5) != draws(-5)
    assert draws(2**63 - 1) != draws(-(2**63))


def test_end_tokens_wait_for_min_tokens():
    logits = torch.zeros(1, VOCAB_SIZE)
    logits[0, 3], logits[0, 4], logits[0, 5] = 9.0, 8.0, 7.0
    sequence = sequence_of(temperature=0.0, min_tokens=2, stop_token_ids=(4,))
    assert choose(logits, sequence, eos=frozenset({3})) == [5]


def test_a_row_of_nan_is_reported_and_the_others_go_on():
    logits = random_logits(3)
    logits[1] = float("nan")
    chosen = choose(logits, *[sequence_of(temperature=0.0) for _ in range(3)])
    assert chosen == [logits[0].argmax().item(), None, logits[2].argmax().item()]


def test_a_nan_in_a_drawn_row_is_reported_too():
    logits = random_logits(2)
    logits[0, 10] = float("nan")
    assert choose(logits, sequence_of(top_p=0.9), sequence_of())[0] is None


def test_no_rows_no_work():
    assert choose(torch.empty(0, VOCAB_SIZE)) == []


def answered(*token_ids, prompt=(1,), **params):
    """A sequence that has said `token_ids`."""
    sequence = sequence_of(prompt=prompt, **{"temperature": 0.0, **params})
    for token_id in token_ids:
        sequence.append_token(token_id, frozenset(), now=0.0)
    return sequence


def changed(sequence):
    """What adjusting does to logits that are all 1, by token id."""
    logits = torch.ones(1, VOCAB_SIZE)
    penalise_repetition(logits, [sequence])
    add_penalties_and_bias(logits, [sequence])
    return {index: value for index, value in enumerate(logits[0].tolist()) if value != 1.0}


def test_presence_and_frequency_count_the_answer_and_never_the_prompt():
    sequence = answered(4, 5, 5, prompt=(7, 7, 7), presence_penalty=0.5, frequency_penalty=0.25)
    assert changed(sequence) == {4: 0.25, 5: 0.0}


def test_repetition_penalty_counts_prompt_and_answer_once_each():
    assert changed(answered(4, 4, prompt=(7, 7), repetition_penalty=2.0)) == {4: 0.5, 7: 0.5}


def test_repetition_penalty_pushes_negative_logits_down():
    logits = torch.full((1, VOCAB_SIZE), -1.0)
    penalise_repetition(logits, [answered(4, prompt=(7,), repetition_penalty=2.0)])
    assert (logits[0, 4], logits[0, 7], logits[0, 8]) == (-2.0, -2.0, -1.0)


def test_a_bias_forces_and_forbids():
    logits = random_logits()
    assert choose(logits, answered(logit_bias=((9, 100.0),))) == [9]
    best = logits.argmax().item()
    assert choose(logits, answered(logit_bias=((best, -100.0),))) == [logits[0].topk(2).indices[1].item()]


def test_a_bias_against_every_token_changes_nothing():
    logits = random_logits()
    everything = tuple((token_id, -100.0) for token_id in range(VOCAB_SIZE))
    assert choose(logits, answered(logit_bias=everything)) == [logits.argmax().item()]


def test_adjustments_of_one_row_leave_the_others_alone():
    logits = random_logits(3)
    alone = choose(logits[:1], sequence_of(seed=3))
    mixed = choose(logits, sequence_of(seed=3), answered(5, repetition_penalty=1.5), answered(logit_bias=((9, 100.0),)))
    assert mixed[0] == alone[0]


def test_logprobs_are_the_models_own_whatever_is_adjusted():
    logits, reported = random_logits(), []
    for params in ({"temperature": 0.0}, {"temperature": 2.0, "seed": 1}, {"logit_bias": ((3, 100.0),), "top_k": 1}):
        sampled = Sampler(frozenset()).sample(logits.clone(), [answered(logprobs=5, **params)])
        token_id = sampled.token_ids[0]
        assert sampled.logprobs[0].token_id == token_id
        assert sampled.logprobs[0].logprob == pytest.approx(torch.log_softmax(logits, -1)[0, token_id].item())
        reported.append(sampled.logprobs[0].top)
    assert reported[0] == reported[1] == reported[2]
    assert [token_id for token_id, _ in reported[0]] == logits[0].topk(5).indices.tolist()


def test_each_row_gets_as_many_logprobs_as_it_asked_for():
    sampled = Sampler(frozenset()).sample(random_logits(3), [answered(logprobs=0), answered(), answered(logprobs=20)])
    assert {row: len(logprob.top) for row, logprob in sampled.logprobs.items()} == {0: 0, 2: 20}
