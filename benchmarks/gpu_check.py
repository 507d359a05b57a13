"""Is the CUDA path right, and how near does it come to the device's bandwidth? In under five minutes.

`make bench-gpu`, or `python -m benchmarks gpu`. First the self-test in float32, where every answer must be that
of `generate`. Then for the full model in 16 bits and for nf4: the tokens of the answers under the module's own plain
forward, and decode steps at three batch sizes. The exit code is 0 if all was right, however fast.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import torch

from benchmarks.decode_speed import DecodeLoad, DecodeSpeed, measure_decode
from myserve_ui import selftest
from myserve_ui.bench.machine.speed import measure_machine
from myserve_ui.bench.roofline.roofline import MachineSpeed, ModelCost, predict_decode
from myserve_ui.core.memory_report import count_weight_traffic
from myserve_ui.engine.blocks.runner import BlockRunner
from myserve_ui.engine.engine import Engine
from myserve_ui.engine.module.self_check import TOLERANCE
from myserve_ui.errors import MyServeError
from myserve_ui.models.baseline import measure_greedy_gap
from myserve_ui.models.catalog import build_catalog
from myserve_ui.models.loaded_model import LoadedModel
from myserve_ui.models.loading.loader import LoadOptions, load_model
from myserve_ui.serving.engine_builder import EngineLimits, build_engine
from myserve_ui.settings import Settings, read_settings

PRECISIONS = ("full", "nf4")
BATCHES = (1, 8, 32)
NO_GPU = "bench-gpu needs an NVIDIA GPU, and torch finds no CUDA device on this machine."


@dataclass(frozen=True, slots=True)
class Findings:
    """What one precision did."""

    greedy_gap: float
    """How far the worst token of the greedy answers is below the module's own choice: see `measure_greedy_gap`."""
    speeds: tuple[DecodeSpeed, ...]
    cost: ModelCost
    way: str
    """By which kernel, and whether steps were replayed."""


def main(arguments: list[str]) -> int:
    """Check and measure with the app's own settings on the CUDA device; 0 if all was right."""
    if not torch.cuda.is_available():
        print(NO_GPU, file=sys.stderr)
        return 1
    print("float32, token for token against generate:")
    is_right = selftest.main([*arguments, "--device", "cuda", "--dtype", "fp32", "--precision", "full"]) == 0
    machine = measure_machine(torch.device("cuda"), torch.bfloat16)
    print(f"{torch.cuda.get_device_name()} reads {machine.bytes_per_s / 1e9:.0f} GB/s")
    for precision in PRECISIONS:
        is_right &= _check_precision(arguments, precision, machine)
    return 0 if is_right else 1


def _check_precision(arguments: list[str], precision: str, machine: MachineSpeed) -> bool:
    try:
        loaded = _load(read_settings([*arguments, "--device", "cuda"]), precision)
        findings = examine(loaded)
    except MyServeError as error:
        print(f"{precision}: {error.message}", file=sys.stderr)
        return False
    is_right = findings.greedy_gap <= TOLERANCE[loaded.dtype]
    print(
        f"{precision}, {str(loaded.dtype).removeprefix('torch.')}: {'right' if is_right else 'WRONG'}, {findings.way}"
    )
    print(f"  the worst token of {len(selftest.QUESTIONS)} answers is {findings.greedy_gap:.2%} below the best")
    for speed in findings.speeds:
        print(f"  {describe(speed, findings.cost, machine)}")
    return is_right


def examine(loaded: LoadedModel, *, batches: tuple[int, ...] = BATCHES) -> Findings:
    """Serve, time, and hold the answers against the module's plain forward. No engine has the module afterwards."""
    assert loaded.module is not None and loaded.memory is not None
    attention = loaded.module.config._attn_implementation  # type: ignore[union-attr]
    engine = build_engine(loaded, EngineLimits(max_num_seqs=max(*batches, len(selftest.QUESTIONS))))
    answers = selftest.answer_questions(engine, loaded)
    speeds = [measure_decode(engine, DecodeLoad(size), vocab_size=loaded.tokenizer.vocab_size) for size in batches]
    cost = ModelCost(
        count_weight_traffic(loaded.memory), loaded.memory.num_parameters, engine.runner.kv_bytes_per_token
    )
    loaded.module.set_attn_implementation(attention)  # type: ignore[operator]
    gaps = [
        measure_greedy_gap(loaded.module, selftest.render_question(loaded, question), answer)
        for question, answer in answers.items()
    ]
    return Findings(max(gaps), tuple(speeds), cost, _way(engine))


def describe(speed: DecodeSpeed, cost: ModelCost, machine: MachineSpeed) -> str:
    """Tokens a second, the step, and its share of the bandwidth: weights and cache read once are what must be moved."""
    bound = predict_decode(machine, cost, batch=speed.load.batch, context=speed.load.middle_context)
    return (
        f"batch {speed.load.batch:2}: {speed.tokens_per_second:6.0f} tok/s, "
        f"{1000 * speed.seconds_per_step:6.2f} ms a step, "
        f"{bound.memory_seconds / speed.seconds_per_step:4.0%} of the bandwidth"
    )


def _load(settings: Settings, precision: str) -> LoadedModel:
    catalog = build_catalog(model=settings.served[0].model, precision=precision, device="cuda")
    return load_model(catalog.default, options=LoadOptions(cache=settings.cache, dtype=settings.dtype, device="cuda"))


def _way(engine: Engine) -> str:
    if not isinstance(runner := engine.runner, BlockRunner):
        return "rows"
    replays = runner.graphs is not None and not runner.graphs.is_broken
    return f"{type(runner.kernel).__name__}, decode steps {'replayed' if replays else 'launched plainly'}"
