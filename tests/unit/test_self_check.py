"""The check before serving: a module's own noise is allowed for, a wrong attention never."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from myserve_ui.engine.module import self_check
from myserve_ui.engine.module.self_check import (
    MOST_NOISE,
    NOISE_FACTOR,
    TOLERANCE,
    Reference,
    check_row_runner,
    check_runner,
    reference_logits,
)
from myserve_ui.engine.rows import attention
from myserve_ui.engine.rows.runner import ModelRunner
from myserve_ui.errors import ModelLoadError
from myserve_ui.kernels.cpu_kernels import pack_int4
from myserve_ui.models.tiny import VOCAB_SIZE, build_tiny_model


def runner_of(module: torch.nn.Module) -> ModelRunner:
    return ModelRunner(module, num_slots=2, max_len=64)


def test_a_module_in_float32_has_no_noise_to_speak_of():
    assert reference_logits(build_tiny_model("llama"), VOCAB_SIZE).noise < TOLERANCE[torch.float32] / NOISE_FACTOR / 4


def test_what_a_module_rounds_inside_is_seen_even_where_its_runs_round_alike():
    module = build_tiny_model("llama")
    pack_int4(module, torch.float32)
    short, long = self_check._prompts(VOCAB_SIZE)
    with torch.inference_mode():
        alone, whole = (self_check._forward(module, [prompt])[0] for prompt in (long[: len(short)], long))
    apart = self_check.relative_difference(whole[len(short) - 1], alone[-1])
    assert reference_logits(module, VOCAB_SIZE).noise > max(10 * apart, 1e-3)


def test_a_module_that_rounds_inside_is_held_to_its_own_noise():
    module = build_tiny_model("llama")
    pack_int4(module, torch.float32)
    reference = reference_logits(module, VOCAB_SIZE)
    assert check_runner(runner_of(module), reference, VOCAB_SIZE) < MOST_NOISE


@pytest.mark.parametrize("noise", [0.0, 10.0])
def test_other_logits_are_refused_however_noisy_the_module_is(noise):
    other = reference_logits(build_tiny_model("llama", seed=1), VOCAB_SIZE)
    with pytest.raises(ModelLoadError, match="more than rounding"):
        check_runner(runner_of(build_tiny_model("llama")), Reference(other.logits, noise), VOCAB_SIZE)


@pytest.mark.parametrize("fault", ["a wrong sum", "no compiler"])
def test_loops_that_fail_are_given_up_and_the_model_is_served_without(monkeypatch, caplog, fault):
    def broken(heads, *others, **options):
        if fault == "no compiler":
            raise RuntimeError("no compiler")
        return np.zeros((len(heads), 64), np.float32)

    expected = reference_logits(build_tiny_model("gpt2"), VOCAB_SIZE)
    runner = runner_of(build_tiny_model("gpt2"))
    monkeypatch.setattr(attention, "attend_rows", broken)
    check_row_runner(runner, expected, VOCAB_SIZE)
    assert not runner.has_loops
    assert "is served without compiled loops, more slowly" in caplog.text


def test_a_model_that_is_wrong_both_ways_is_refused_without_a_word_of_loops(caplog):
    other = reference_logits(build_tiny_model("llama", seed=1), VOCAB_SIZE)
    with pytest.raises(ModelLoadError, match="more than rounding"):
        check_row_runner(runner_of(build_tiny_model("llama")), other, VOCAB_SIZE)
    assert not caplog.text


@pytest.mark.parametrize(("threads", "ways"), [(1, [True]), (2, [True]), (8, [True, False])])
def test_where_many_threads_compute_both_ways_are_checked(monkeypatch, threads, ways):
    expected, runner = reference_logits(build_tiny_model("llama"), VOCAB_SIZE), runner_of(build_tiny_model("llama"))
    tried = []
    monkeypatch.setattr(self_check, "check_runner", lambda runner, *others: tried.append(runner.has_loops))
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    check_row_runner(runner, expected, VOCAB_SIZE)
    assert (tried, runner.has_loops) == (ways, True)
