"""Times the parts of an engine that a client cannot see apart: prefill, what lies outside the forward, a chat's turn."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from myserve_ui.core.sampling_params import SamplingParams
from myserve_ui.engine.engine import Engine
from myserve_ui.engine.engine_request import EngineRequest
from myserve_ui.engine.scheduler import ScheduledBatch

Clock = Callable[[], float]
LOWEST_TOKEN_ID = 100
"""Ids below are often control tokens."""


@dataclass(frozen=True, slots=True)
class StepTimes:
    """Medians over decode steps. Seconds."""

    step: float
    forward: float
    """Of these, in the runner: the model alone."""

    @property
    def overhead(self) -> float:
        """Share of a step that schedules, samples, writes text and reports."""
        return 1 - self.forward / self.step


class TimedForward:
    """Stands before an engine's forward while it is open, and notes how long each takes."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self.seconds: list[float] = []
        self._runner, self._clock = engine.runner, clock
        self._forward = engine.runner.forward

    def __enter__(self) -> TimedForward:
        self._runner.forward = self._timed  # type: ignore[method-assign]
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.forward = self._forward  # type: ignore[method-assign]

    def _timed(self, batch: ScheduledBatch) -> object:
        start = self._clock()
        logits = self._forward(batch)
        self.seconds.append(self._clock() - start)
        return logits


def time_decode(
    engine: Engine, *, batch: int, context: int, steps: int = 24, params: SamplingParams | None = None, clock: Clock
) -> StepTimes:
    """Steps in which `batch` sequences decode with `context` tokens behind them, in an idle engine."""
    generator = random.Random(batch)
    for index in range(batch):
        prompt = [generator.randrange(LOWEST_TOKEN_ID, 1000) for _ in range(context)]
        engine.add(_request(f"decode-{index}", prompt, max_tokens=steps + batch + 8, params=params))
    while engine.scheduler.waiting or any(s.num_uncomputed_tokens > 1 for s in engine.scheduler.running):
        engine.step()
    seconds = []
    with TimedForward(engine, clock) as forward:
        for _ in range(steps):
            start = clock()
            engine.step()
            seconds.append(clock() - start)
    for index in range(batch):
        engine.abort(f"decode-{index}")
    return StepTimes(statistics.median(seconds), statistics.median(forward.seconds))


def time_to_first_token(engine: Engine, prompt: list[int], *, cached: bool, clock: Clock = time.perf_counter) -> float:
    """Seconds from a request to its first token, in an idle engine."""
    engine.add(_request("first", prompt, max_tokens=1, cached=cached))
    start = clock()
    while engine.has_work:
        engine.step()
    return clock() - start


def time_sixth_turn(engine: Engine, *, history: int, question: int = 32, answer: int = 32, clock: Clock) -> float:
    """TTFT of a chat's sixth turn as a share of a prefill from nothing; each turn brings a fifth of `history`."""
    generator = random.Random(history)
    tokens: list[int] = []
    for turn in range(5):
        tokens += [generator.randrange(LOWEST_TOKEN_ID, 1000) for _ in range(history // 5 - answer)]
        tokens += _answer(engine, f"turn-{turn}", tokens, answer)
    tokens += [generator.randrange(LOWEST_TOKEN_ID, 1000) for _ in range(question)]
    warm = time_to_first_token(engine, tokens, cached=True, clock=clock)
    return warm / time_to_first_token(engine, tokens, cached=False, clock=clock)


def _answer(engine: Engine, name: str, prompt: list[int], length: int) -> list[int]:
    engine.add(_request(name, prompt, max_tokens=length, cached=True))
    token_ids: list[int] = []
    while engine.has_work:
        for output in engine.step():
            token_ids += output.token_ids
    return token_ids


def _request(
    name: str, prompt: list[int], *, max_tokens: int, params: SamplingParams | None = None, cached: bool = False
) -> EngineRequest:
    chosen = params or SamplingParams(temperature=0.0, top_p=1.0, top_k=0, min_p=0.0)
    fixed = {"max_tokens": max_tokens, "min_tokens": max_tokens, "ignore_eos": True}
    return EngineRequest(name, tuple(prompt), replace(chosen, **fixed), arrival=0.0, cache_prompt=cached)
