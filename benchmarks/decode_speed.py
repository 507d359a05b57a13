"""Times the engine's decode steps from inside, with no server and no reader: what the device makes of a batch."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch

from myserve_ui.core.sampling_params import SamplingDefaults, SamplingParams
from myserve_ui.engine.engine import Engine
from myserve_ui.engine.scheduler import ScheduledBatch
from myserve_ui.engine.sequence import EngineRequest

WARM_STEPS = 8
"""Steps before the clock counts: a size that is met for the first time is recorded in one of them."""

LOWEST_TOKEN_ID = 100
"""Ids below are often control tokens."""


def greedy() -> SamplingParams:
    """The likeliest token, and nothing beside."""
    return SamplingParams(temperature=0.0, top_p=1.0, top_k=0, min_p=0.0)


@dataclass(frozen=True, slots=True)
class DecodeLoad:
    """`batch` sequences that decode together for `steps` steps after prompts of `prompt_length` random tokens."""

    batch: int
    prompt_length: int = 64
    steps: int = 64
    params: SamplingParams = field(default_factory=greedy)

    @property
    def middle_context(self) -> int:
        """Tokens of each sequence half way through what is timed."""
        return self.prompt_length + WARM_STEPS + self.steps // 2


@dataclass(frozen=True, slots=True)
class DecodeSpeed:
    load: DecodeLoad
    seconds_per_step: float
    """The median: scheduling, forward, sampling and text together."""
    seconds_of_forward: float = 0.0
    """The median of the model alone."""

    @property
    def tokens_per_second(self) -> float:
        return self.load.batch / self.seconds_per_step

    @property
    def overhead(self) -> float:
        """Seconds of a step that go to scheduling, sampling, text and reports."""
        return self.seconds_per_step - self.seconds_of_forward


class _TimedForward:
    """Stands before an engine's forward while it is open, and notes how long each takes."""

    def __init__(self, engine: Engine) -> None:
        self.seconds: list[float] = []
        self._runner = engine.runner
        self._forward = engine.runner.forward

    def __enter__(self) -> _TimedForward:
        self._runner.forward = self._timed  # type: ignore[method-assign]
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.forward = self._forward  # type: ignore[method-assign]

    def _timed(self, batch: ScheduledBatch) -> torch.Tensor:
        start = time.perf_counter()
        logits = self._forward(batch)
        self.seconds.append(time.perf_counter() - start)
        return logits


def measure_decode(
    engine: Engine, load: DecodeLoad, *, vocab_size: int, clock: Callable[[], float] = time.perf_counter
) -> DecodeSpeed:
    """Run `load` through an idle engine. Prompts differ, so that none begins as another does."""
    generator = random.Random(load.batch)
    for index in range(load.batch):
        prompt = [generator.randrange(LOWEST_TOKEN_ID, vocab_size) for _ in range(load.prompt_length)]
        length = WARM_STEPS + load.steps + load.batch + 2
        engine.add(fixed_request(f"{load.batch}-{index}", prompt, load.params, length))
    while engine.scheduler.waiting or any(sequence.num_uncomputed_tokens > 1 for sequence in engine.scheduler.running):
        engine.step()
    for _ in range(WARM_STEPS):
        engine.step()
    with _TimedForward(engine) as forward:
        seconds = [_time_step(engine, clock) for _ in range(load.steps)]
    for index in range(load.batch):
        engine.abort(f"{load.batch}-{index}")
    return DecodeSpeed(load, statistics.median(seconds), statistics.median(forward.seconds))


def _time_step(engine: Engine, clock: Callable[[], float]) -> float:
    """A step ends with ids on the host, so nothing of it is still under way on the device."""
    start = clock()
    outputs = engine.step()
    assert all(output.error is None for output in outputs), "a sequence failed while it was timed"
    return clock() - start


def fixed_request(
    name: str, prompt: list[int], params: SamplingParams, length: int, *, cached: bool = False
) -> EngineRequest:
    """A request for exactly `length` tokens."""
    exact = replace(params, max_tokens=length, min_tokens=length, ignore_eos=True).resolve(SamplingDefaults())
    return EngineRequest(name, tuple(prompt), exact, arrival=0.0, cache_prompt=cached)
