"""Decode steps are timed with every sequence decoding; greedy text has no gap, and one wrong token is one."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from benchmarks import gpu_check
from benchmarks.decode_speed import WARM_STEPS, DecodeLoad, DecodeSpeed, measure_decode
from myserve_ui.bench.roofline.roofline import MachineSpeed, ModelCost
from myserve_ui.models.baseline import generate_plainly, measure_greedy_gap
from myserve_ui.models.memory import measure_memory
from myserve_ui.models.tiny import VOCAB_SIZE, build_tiny_loaded_model, build_tiny_model
from myserve_ui.serving.engine_builder import EngineLimits, build_engine

PROMPT = list(range(40, 60))


class SteppingClock:
    """Each step of an engine takes a second longer than the one before."""

    def __init__(self):
        self.now, self.calls = 0.0, 0

    def __call__(self):
        self.calls += 1
        self.now += self.calls / 2 if self.calls % 2 == 0 else 0.0
        return self.now


def test_a_speed_is_the_median_step_with_all_sequences_in_it():
    engine = build_engine(build_tiny_loaded_model("llama"), EngineLimits(max_num_seqs=4, debug=True))
    load = DecodeLoad(batch=3, prompt_length=150, steps=5)
    speed = measure_decode(engine, load, vocab_size=VOCAB_SIZE, clock=SteppingClock())
    assert speed.seconds_per_step == 3.0
    assert speed.tokens_per_second == 1.0
    assert engine.snapshot().generation_tokens >= 3 * (WARM_STEPS + load.steps)
    assert not engine.has_work


def test_the_share_of_the_bandwidth_counts_weights_and_cache_once():
    speed = DecodeSpeed(DecodeLoad(batch=8, prompt_length=60, steps=64), seconds_per_step=0.002)
    cost = ModelCost(bytes_per_step=100_000_000, num_parameters=1, kv_bytes_per_token=1_250_000)
    machine = MachineSpeed(bytes_per_s=1e12, flops_per_s=1e15, device="cuda", dtype="bfloat16")
    assert gpu_check.describe(speed, cost, machine) == (
        "batch  8:   4000 tok/s,   2.00 ms a step,  55% of the bandwidth"
    )


@pytest.fixture(scope="module")
def module():
    return build_tiny_model("qwen2")


def test_greedy_text_has_no_gap(module):
    answer = generate_plainly(module, PROMPT, max_tokens=10, end_token_ids=frozenset())
    assert measure_greedy_gap(module, PROMPT, answer) == 0.0


def test_one_wrong_token_is_a_gap(module):
    answer = generate_plainly(module, PROMPT, max_tokens=10, end_token_ids=frozenset())
    logits = module(input_ids=torch.tensor([[*PROMPT, *answer[:4]]]), use_cache=False).logits[0, -1]
    assert measure_greedy_gap(module, PROMPT, [*answer[:4], int(logits.argmin()), *answer[5:]]) > 0.5


def test_what_the_check_examines_is_right_on_any_device():
    loaded = build_tiny_loaded_model("llama")
    loaded = replace(loaded, memory=measure_memory(loaded.module))
    findings = gpu_check.examine(loaded, batches=(1, 2))
    assert findings.greedy_gap < 1e-5
    assert [speed.load.batch for speed in findings.speeds] == [1, 2]
    assert findings.way == "rows"


def test_without_a_gpu_the_check_refuses_in_one_sentence(monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert gpu_check.main([]) == 1
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", gpu_check.NO_GPU + "\n")
