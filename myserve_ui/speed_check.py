"""The engine's own speed against the limits of this machine: decode, prefill, overhead, prefix reuse, memory.

Part of `make bench`; what a client sees of it is measured over HTTP, beside the rivals.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import psutil
import torch

from myserve_ui.bench.engine_speed import StepTimes, time_decode, time_sixth_turn, time_to_first_token
from myserve_ui.bench.goals import Goal
from myserve_ui.bench.machine_speed import measure_machine
from myserve_ui.bench.roofline import MachineSpeed, ModelCost, predict_decode
from myserve_ui.core.memory_report import count_weight_traffic
from myserve_ui.core.sampling_params import SamplingParams
from myserve_ui.engine.engine import Engine
from myserve_ui.models.catalog import build_catalog
from myserve_ui.models.devices import bound_threads
from myserve_ui.models.loaded_model import LoadedModel
from myserve_ui.models.loader import LoadOptions, load_model
from myserve_ui.serving.engine_builder import EngineLimits, build_engine
from myserve_ui.settings import Settings

BATCHES = (1, 4, 16)
SHORT, LONG, PROMPT, HISTORY = 16, 512, 512, 1500
ROUNDS = 3
Tell = Callable[[str], None]


def check_speed(settings: Settings, tell: Tell) -> list[Goal]:
    """Measure the default model of `settings` in this process; takes a minute or two. Raises ModelLoadError."""
    bound_threads(settings.threads)
    loaded = _load(settings, "full")
    engine = build_engine(loaded, EngineLimits())
    machine = measure_machine(loaded.device, loaded.dtype)
    tell(f"reads {machine.bytes_per_s / 1e9:.1f} GB/s, multiplies {machine.flops_per_s / 1e9:.0f} GFLOP/s")
    goals = [*_decode_goals(engine, loaded, machine, tell), *_prefill_goals(engine, loaded, machine)]
    return [*goals, *_memory_goals(settings)]


def _decode_goals(engine: Engine, loaded: LoadedModel, machine: MachineSpeed, tell: Tell) -> Iterator[Goal]:
    assert loaded.memory is not None
    cost = ModelCost(
        count_weight_traffic(loaded.memory), loaded.memory.num_parameters, engine.runner.kv_bytes_per_token
    )
    greedy = [_quickest(engine, batch, SHORT) for batch in BATCHES]
    for batch, times in zip(BATCHES, greedy, strict=True):
        bound = predict_decode(machine, cost, batch=batch, context=SHORT)
        tell(f"batch {batch}: {1000 * times.step:.1f} ms a step, bound {1000 * bound.seconds:.1f} ms")
        yield Goal(f"decode at batch {batch}: share of the roofline", "of 1", 0.6, bound.seconds / times.step)
    most = BATCHES[-1]
    long = _quickest(engine, most, LONG)
    yield Goal(f"{most} sequences, a step at {LONG} tokens over one at {SHORT}", "x", 1.5, long.step / greedy[-1].step, True)
    yield Goal(f"outside the forward at batch {most}: share of a step", "of 1", 0.05, greedy[-1].overhead, True)
    drawn = _quickest(engine, most, SHORT, SamplingParams(temperature=0.7, top_p=0.9, top_k=0, min_p=0.0, seed=1))
    extra = (drawn.step - drawn.forward) - (greedy[-1].step - greedy[-1].forward)
    yield Goal(f"top_p for {most} rows, beyond greedy", "ms", 3.0, 1000 * extra, True)


def _prefill_goals(engine: Engine, loaded: LoadedModel, machine: MachineSpeed) -> Iterator[Goal]:
    assert loaded.memory is not None
    prompt = [100 + index % 900 for index in range(PROMPT)]
    seconds = min(time_to_first_token(engine, prompt, cached=False) for _ in range(ROUNDS))
    rate = 2 * _layer_parameters(loaded) * PROMPT / seconds
    yield Goal(f"prefill of {PROMPT} tokens: share of the matrix rate", "of 1", 0.7, rate / machine.flops_per_s)
    share = min(time_sixth_turn(engine, history=HISTORY, clock=time.perf_counter) for _ in range(2))
    yield Goal(f"6th turn after {HISTORY} tokens: TTFT over a cold one", "of 1", 0.15, share, True)


def _layer_parameters(loaded: LoadedModel) -> int:
    """Parameters that every token of a prompt is multiplied with: not the head, which only the last one needs."""
    assert loaded.memory is not None
    return sum(group.num_parameters for group in loaded.memory.groups if ".layers." in group.pattern)


def _memory_goals(settings: Settings) -> Iterator[Goal]:
    process = psutil.Process()
    before = process.memory_full_info().uss
    second = _load(settings, "int4")
    grown = process.memory_full_info().uss - before
    yield Goal("memory of int4 beside full, over its own weights", "x", 1.15, grown / (second.info.weight_bytes or 1), True)


def _quickest(engine: Engine, batch: int, context: int, params: SamplingParams | None = None) -> StepTimes:
    """Of some rounds: others were disturbed."""
    rounds = [
        time_decode(engine, batch=batch, context=context, params=params, clock=time.perf_counter) for _ in range(ROUNDS)
    ]
    return min(rounds, key=lambda times: times.step)


def _load(settings: Settings, precision: str) -> LoadedModel:
    catalog = build_catalog(model=settings.model, precision=precision, device=settings.device)
    options = LoadOptions(
        cache=settings.cache, dtype=settings.dtype, device=settings.device, kernels=settings.kernels
    )
    return load_model(catalog.default, options=options)
