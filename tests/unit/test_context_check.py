"""The context ends where something begins that was not seen to be right, and nowhere else."""

from __future__ import annotations

from dataclasses import replace

import pytest
from transformers import AutoConfig

from myserve_ui.engine.module import length_check
from myserve_ui.models.facts import find_named_borders
from myserve_ui.models.loading.verdicts import open_verdicts
from myserve_ui.models.tiny import CONTEXT_LENGTH, SLIDING_WINDOW, build_tiny_loaded_model
from myserve_ui.serving import context_check
from myserve_ui.serving.engine_builder import EngineLimits, build_engine
from tests.parity.test_lengths import BORDER, build
from tests.support.tiny_checkpoint import save_tiny_model


def loaded_of(name, **changes):
    loaded = build_tiny_loaded_model("llama")
    return replace(loaded, module=build(name), **changes)


def context_of(loaded, *, asked_for=None):
    config = build_engine(loaded, EngineLimits(max_num_seqs=2, max_model_len=asked_for)).config
    return config.max_model_len, config.context_note


@pytest.fixture
def no_time(monkeypatch):
    monkeypatch.setattr(length_check, "WORK_PER_THREAD", 0.0)


@pytest.fixture
def verdicts(tmp_path):
    folder = save_tiny_model(tmp_path / "model", "llama")
    return lambda: open_verdicts(folder, tmp_path / "cache", ["full"])


def test_a_plain_model_has_nothing_to_check(monkeypatch):
    monkeypatch.setattr(context_check, "check_past", None)
    assert context_of(build_tiny_loaded_model("llama")) == (CONTEXT_LENGTH, None)


def test_what_is_right_beyond_its_border_is_served_whole():
    assert context_of(loaded_of("llama4_text, chunk and temperature")) == (CONTEXT_LENGTH, None)
    assert context_of(loaded_of("phi3, longrope")) == (CONTEXT_LENGTH, None)


def test_what_differs_beyond_a_border_is_not_promised(monkeypatch):
    monkeypatch.setattr(context_check, "check_past", lambda *_others, **_options: 0.2)
    length, note = context_of(loaded_of("phimoe, window"))
    assert length == 30
    assert "ends at 30 tokens" in note and "20.00%" in note


def test_a_window_that_is_too_long_to_try_was_read_from_the_mask(no_time):
    assert context_of(build_tiny_loaded_model("mistral")) == (CONTEXT_LENGTH, None)
    assert SLIDING_WINDOW < CONTEXT_LENGTH


def test_a_switch_that_is_too_long_to_try_ends_the_context_unless_more_is_asked_for(no_time, caplog):
    length, note = context_of(loaded_of("llama, longrope"))
    assert (length, "--max-model-len" in note) == (BORDER, True)
    assert context_of(loaded_of("llama, longrope"), asked_for=128) == (128, None)
    assert "served unchecked, as asked for" in caplog.text
    assert context_of(loaded_of("llama, longrope"), asked_for=50) == (50, None)


def test_a_verdict_is_remembered_for_the_same_files_only(monkeypatch, tmp_path, verdicts):
    checked = []
    monkeypatch.setattr(context_check, "check_past", lambda _runner, border, *_, **__: checked.append(border) or 0.0)
    for _ in range(2):
        context_of(loaded_of("phimoe, window", verdicts=verdicts()))
    assert checked == [30]
    weights = tmp_path / "model" / "model.safetensors"
    weights.write_bytes(weights.read_bytes())
    context_of(loaded_of("phimoe, window", verdicts=verdicts()))
    assert checked == [30, 30]


def test_a_cache_that_cannot_be_written_costs_nothing_but_the_check(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    found = open_verdicts(save_tiny_model(tmp_path / "model", "llama"), blocked, [])
    found.remember({8: 0.0})
    assert found.recall() == {}


@pytest.mark.parametrize(
    ("rope", "borders"),
    [
        ({"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 64}, set()),
        ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}, set()),
        ({"rope_type": "yarn", "original_max_position_embeddings": 64, "llama_4_scaling_beta": 0.1}, {64}),
        ({"rope_type": "something new", "original_max_position_embeddings": 64}, {64}),
    ],
)
def test_frequencies_that_never_change_are_no_border(rope, borders):
    config = AutoConfig.for_model("llama")
    config.rope_parameters = {"rope_theta": 1e4, **rope}
    assert find_named_borders(config, windows_are_known=True) == borders


def test_a_window_in_the_configuration_counts_only_where_the_masks_did_not_tell():
    config = AutoConfig.for_model("mistral", sliding_window=4096)
    assert find_named_borders(config, windows_are_known=True) == set()
    assert find_named_borders(config, windows_are_known=False) == {4096}
