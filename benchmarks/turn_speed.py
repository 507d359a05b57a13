"""Times how soon an engine begins to answer: a prompt from nothing, and a chat's next turn."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from benchmarks.decode_speed import LOWEST_TOKEN_ID, fixed_request, greedy
from myserve_ui.engine.engine import Engine
from myserve_ui.engine.offline import answer_all

HIGHEST_TOKEN_ID = 300
TURNS = 6
ANSWER, QUESTION = 32, 32
"""Tokens of each answer, and of the last question."""

Clock = Callable[[], float]


def time_to_first_token(engine: Engine, prompt: list[int], *, cached: bool, clock: Clock = time.perf_counter) -> float:
    """Seconds from a request to its first token, in an idle engine."""
    request = fixed_request("first", prompt, greedy(), 1, cached=cached)
    start = clock()
    answer_all(engine, [request])
    return clock() - start


def compare_last_turn(engine: Engine, history: int, *, clock: Clock = time.perf_counter) -> float:
    """TTFT of a chat's sixth turn as a share of that of the same prompt from nothing.

    Each turn before it brings a fifth of `history` tokens, its answer included.
    """
    generator = random.Random(history)
    tokens: list[int] = []
    for turn in range(TURNS - 1):
        tokens += _random_tokens(generator, history // (TURNS - 1) - ANSWER)
        tokens += _answer(engine, f"turn-{turn}", tokens)
    tokens += _random_tokens(generator, QUESTION)
    warm = time_to_first_token(engine, tokens, cached=True, clock=clock)
    return warm / time_to_first_token(engine, tokens, cached=False, clock=clock)


def _random_tokens(generator: random.Random, count: int) -> list[int]:
    return [generator.randrange(LOWEST_TOKEN_ID, HIGHEST_TOKEN_ID) for _ in range(count)]


def _answer(engine: Engine, name: str, prompt: list[int]) -> list[int]:
    return answer_all(engine, [fixed_request(name, prompt, greedy(), ANSWER, cached=True)])[0].token_ids
