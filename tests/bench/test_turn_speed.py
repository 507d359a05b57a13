"""A chat's next turn computes only its new tokens; the engine's own goals are measured on any model."""

from __future__ import annotations

import pytest

from benchmarks import speed_check
from benchmarks.turn_speed import QUESTION, compare_last_turn, time_to_first_token
from myserve_ui.engine.engine import Engine, EngineConfig
from myserve_ui.settings import Settings
from tests.support.fakes import ScriptedRunner, decode_bytes, says
from tests.support.tiny_checkpoint import save_tiny_model


@pytest.fixture
def engine():
    config = EngineConfig(
        max_num_seqs=4,
        max_num_batched_tokens=64,
        max_model_len=2048,
        max_cache_tokens=8192,
        eos_token_ids=frozenset({299}),
        debug=True,
    )
    return Engine(ScriptedRunner(says(65)), decode_bytes, config=config)


@pytest.fixture
def computed(engine):
    """A clock that counts the tokens that were computed."""
    return lambda: float(sum(batch.num_tokens for batch in engine.runner.batches))


def test_the_time_to_a_first_token_is_that_of_its_whole_prompt(engine, computed):
    assert time_to_first_token(engine, list(range(100, 250)), cached=False, clock=computed) == 150


def test_a_sixth_turn_is_compared_with_the_same_prompt_from_nothing(engine, computed):
    share = compare_last_turn(engine, 1500, clock=computed)
    assert share == pytest.approx((QUESTION + 1) / (1500 + QUESTION), abs=2 / 1500)  # and the last answer's last token
    assert not engine.has_work


def test_every_goal_of_the_engine_is_measured(monkeypatch, tmp_path):
    for name, value in {"LONG": 40, "PROMPT": 48, "HISTORY": 200, "BATCHES": (1, 3), "STEPS": 3, "ROUNDS": 1}.items():
        monkeypatch.setattr(speed_check, name, value)
    settings = Settings(model=str(save_tiny_model(tmp_path / "tiny", "llama")), cache=tmp_path / "cache")
    told: list[str] = []
    goals = speed_check.check_speed(settings, told.append)
    assert len(goals) == 10
    assert all(goal.reached is not None for goal in goals)
    works = [f"decode at batch {batch}: share of the roofline" for batch in (1, 3)]
    assert [line.split(" ms")[0].rpartition(": ")[0] for line in told[1:]] == [
        name for work in works for name in (work, f"{work}, were its weights read in float32")
    ]
