"""The engine's own speed against the limits of this machine: decode, prefill, overhead, prefix reuse, memory.

Part of `make bench`; what a client sees of it is measured over HTTP, beside the rivals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import psutil

from benchmarks.decode_speed import LOWEST_TOKEN_ID, DecodeLoad, DecodeSpeed, measure_decode
from benchmarks.goals import Goal
from benchmarks.turn_speed import HIGHEST_TOKEN_ID, compare_last_turn, time_to_first_token
from myserve_ui.bench.machine.speed import measure_machine
from myserve_ui.bench.roofline.roofline import MachineSpeed, ModelCost, predict_decode
from myserve_ui.core.machine import return_freed_memory
from myserve_ui.core.memory_report import count_weight_traffic
from myserve_ui.core.sampling_params import SamplingParams
from myserve_ui.engine.engine import Engine
from myserve_ui.kernels.threads import bound_threads
from myserve_ui.models.catalog import build_catalog
from myserve_ui.models.loaded_model import LoadedModel
from myserve_ui.models.loading.loader import LoadOptions, load_model
from myserve_ui.serving.engine_builder import EngineLimits, build_engine
from myserve_ui.settings import Settings

BATCHES = (1, 4, 16)
SHORT, LONG, PROMPT, HISTORY = 16, 512, 512, 1500
ROUNDS, STEPS = 3, 24
Tell = Callable[[str], None]


def check_speed(settings: Settings, tell: Tell) -> list[Goal]:
    """Measure the default model of `settings` in this process; takes a minute or two. Raises ModelLoadError."""
    bound_threads(settings.threads)
    options = LoadOptions(cache=settings.cache, dtype=settings.dtype, device=settings.device, kernels=settings.kernels)
    loaded = _load(settings, "full", options)
    engine = build_engine(loaded, EngineLimits())
    machine = measure_machine(loaded.device, loaded.dtype)
    tell(f"reads {machine.bytes_per_s / 1e9:.1f} GB/s, multiplies {machine.flops_per_s / 1e9:.0f} GFLOP/s")
    goals = [*_decode_goals(engine, loaded, machine, tell), *_prefill_goals(engine, loaded, machine)]
    return [*goals, *_memory_goals(settings, options)]


def _decode_goals(engine: Engine, loaded: LoadedModel, machine: MachineSpeed, tell: Tell) -> Iterator[Goal]:
    assert loaded.memory is not None
    cost = ModelCost(
        count_weight_traffic(loaded.memory), loaded.memory.num_parameters, engine.runner.kv_bytes_per_token
    )
    in_float32 = replace(cost, bytes_per_step=4 * sum(group.num_parameters for group in loaded.memory.read))
    speeds = [_decode(engine, DecodeLoad(batch, SHORT, STEPS)) for batch in BATCHES]
    for speed in speeds:
        work = f"decode at batch {speed.load.batch}: share of the roofline"
        for name, moved in ((work, cost), (f"{work}, were its weights read in float32", in_float32)):
            bound = predict_decode(machine, moved, batch=speed.load.batch, context=speed.load.middle_context).seconds
            tell(f"{name}: {1000 * speed.seconds_per_step:.1f} ms a step, at least {1000 * bound:.1f} ms")
            yield Goal(name, "of 1", 0.6, bound / speed.seconds_per_step)
    yield from _full_batch_goals(engine, speeds[-1])


def _full_batch_goals(engine: Engine, short: DecodeSpeed) -> Iterator[Goal]:
    most = short.load.batch
    long = _decode(engine, DecodeLoad(most, LONG, STEPS))
    ratio = long.seconds_per_step / short.seconds_per_step
    yield Goal(f"{most} sequences: a step at {LONG} tokens over one at {SHORT}", "x", 1.5, ratio, is_ceiling=True)
    share = short.overhead / short.seconds_per_step
    yield Goal(f"outside the forward at batch {most}: share of a step", "of 1", 0.05, share, is_ceiling=True)
    nucleus = SamplingParams(temperature=0.7, top_p=0.9, top_k=0, min_p=0.0, seed=1)
    drawn = _decode(engine, DecodeLoad(most, SHORT, STEPS, nucleus))
    extra = 1000 * (drawn.overhead - short.overhead)
    yield Goal(f"top_p for {most} rows, beyond greedy", "ms", 3.0, extra, is_ceiling=True)


def _decode(engine: Engine, load: DecodeLoad) -> DecodeSpeed:
    """The quickest of some rounds: the others were disturbed."""
    rounds = [measure_decode(engine, load, vocab_size=HIGHEST_TOKEN_ID) for _ in range(ROUNDS)]
    return min(rounds, key=lambda speed: speed.seconds_per_step)


def _prefill_goals(engine: Engine, loaded: LoadedModel, machine: MachineSpeed) -> Iterator[Goal]:
    prompt = [LOWEST_TOKEN_ID + index % 200 for index in range(PROMPT)]
    seconds = min(time_to_first_token(engine, prompt, cached=False) for _ in range(ROUNDS))
    rate = 2 * _layer_parameters(loaded) * PROMPT / seconds
    yield Goal(f"prefill of {PROMPT} tokens: share of the matrix rate", "of 1", 0.7, rate / machine.flops_per_s)
    share = min(compare_last_turn(engine, HISTORY) for _ in range(2))
    yield Goal(f"6th turn after {HISTORY} tokens: TTFT over one from nothing", "of 1", 0.15, share, is_ceiling=True)


def _layer_parameters(loaded: LoadedModel) -> int:
    """Parameters that every token of a prompt is multiplied with: not the head, which only the last one needs."""
    assert loaded.memory is not None
    return sum(group.num_parameters for group in loaded.memory.groups if ".layers." in group.pattern)


def _memory_goals(settings: Settings, options: LoadOptions) -> Iterator[Goal]:
    process = psutil.Process()
    return_freed_memory()  # what measuring left behind would go with the next load, and hide what that takes
    before = process.memory_full_info().uss
    second = _load(settings, "int4", options)
    grown = (process.memory_full_info().uss - before) / (second.info.weight_bytes or 1)
    yield Goal("memory of int4 beside full, over its own weights", "x", 1.15, grown, is_ceiling=True)


def _load(settings: Settings, precision: str, options: LoadOptions) -> LoadedModel:
    catalog = build_catalog(model=settings.served[0].model, precision=precision, device=settings.device)
    return load_model(catalog.default, options=options)
