"""The same seed gives the same text: alone, beside others, after a prefix hit and after preemption, to the last bit."""

from __future__ import annotations

import random

import pytest

from myserve_ui.engine.engine import Engine, EngineConfig
from myserve_ui.engine.offline import answer_all
from myserve_ui.engine.sequence import EngineRequest
from myserve_ui.models.catalog import build_catalog
from myserve_ui.models.loading.loader import LoadOptions, load_model
from myserve_ui.serving.engine_builder import EngineLimits, build_engine
from myserve_ui.settings import read_settings
from tests.support.sampling import resolved

pytestmark = [pytest.mark.model, pytest.mark.timeout(900)]
NUM_SEEDS, MAX_TOKENS, VOCAB_SIZE = 64, 6, 49_152
LENGTHS = (1, 2, 9, 40, 61, 62, 63, 131)
"""Three of them grow beyond a piece of memory while they are answered, and have others make way."""
Logits = dict[tuple[str, int], bytes]
"""Of each request, by how many tokens it had: the row of logits that its next token was drawn from."""


class WatchedRunner:
    """Hands on what a runner computes, and keeps what each sequence was given."""

    def __init__(self, runner):
        self._runner = runner
        self.logits: Logits = {}

    def __getattr__(self, name):
        return getattr(self._runner, name)

    def forward(self, batch):
        logits = self._runner.forward(batch)
        for chunk, row in zip(batch.sampling, logits[batch.sampling_rows], strict=True):
            self.logits[chunk.sequence.request_id, chunk.start + chunk.length] = row.numpy().tobytes()
        return logits


@pytest.fixture(scope="module", params=["full", "int4", "nf4"])
def built(request):
    entry = build_catalog(model="SmolLM2-135M-Instruct", precision=request.param, device="cpu").default
    loaded = load_model(entry, options=LoadOptions(cache=read_settings().cache, device="cpu"))
    return build_engine(loaded, EngineLimits(max_num_seqs=16))


def request_of(seed: int, *, cache_prompt: bool) -> EngineRequest:
    generator = random.Random(seed)
    prompt = tuple(generator.randrange(3, VOCAB_SIZE) for _ in range(LENGTHS[seed % len(LENGTHS)]))
    params = resolved(temperature=1.3, max_tokens=MAX_TOKENS, min_tokens=MAX_TOKENS, seed=seed)
    return EngineRequest(str(seed), prompt, params, arrival=0.0, cache_prompt=cache_prompt)


def make_engine(built: Engine, *, step_tokens: int = 128, cache_tokens: int = 16_384) -> tuple[Engine, WatchedRunner]:
    runner = WatchedRunner(built.runner)
    config = EngineConfig(16, step_tokens, 256, cache_tokens, eos_token_ids=frozenset({2}), debug=True)
    return Engine(runner, lambda ids: "", config=config), runner


def run(engine: Engine, requests: list[EngineRequest]) -> dict[str, list[int]]:
    answers = answer_all(engine, requests)
    assert [answer.error for answer in answers] == [None] * len(requests)
    return {request.request_id: answer.token_ids for request, answer in zip(requests, answers, strict=True)}


def test_the_same_seed_draws_from_the_same_bits_whatever_happens_around_it(built):
    engine, alone = make_engine(built)
    expected = {}
    for seed in range(NUM_SEEDS):
        expected |= run(engine, [request_of(seed, cache_prompt=False)])
    assert len({tuple(answer) for answer in expected.values()}) == NUM_SEEDS

    beside_others, runner = make_engine(built, step_tokens=50)
    for first in range(0, NUM_SEEDS, 16):
        few = [request_of(seed, cache_prompt=True) for seed in range(first, first + 16)]
        for _ in range(2):  # the second time from what the first has left
            assert run(beside_others, few) == {request.request_id: expected[request.request_id] for request in few}
            assert differing(runner.logits, alone.logits) == []
            runner.logits.clear()
    assert beside_others.snapshot().prefix_hit_tokens > NUM_SEEDS

    short_of_memory, runner = make_engine(built, step_tokens=37, cache_tokens=448)
    requests = [request_of(seed, cache_prompt=seed % 2 == 0) for seed in reversed(range(NUM_SEEDS))]
    assert run(short_of_memory, requests) == expected
    assert short_of_memory.scheduler.num_preemptions > 0
    assert differing(runner.logits, alone.logits) == []


def differing(actual: Logits, expected: Logits) -> list[tuple[str, int]]:
    assert actual
    return [key for key, row in actual.items() if row != expected[key]]
