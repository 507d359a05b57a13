"""Before a model serves anybody: does it compute the same through the engine as by itself?

Two prompts of different lengths run through the runner, in uneven chunks and side by side, then one of them alone, and
their logits are held against the module's own plain forward. This is what makes "any model" an honest claim: a family
whose attention the engine does not reproduce is refused with the reason. What begins beyond these lengths is
length_check.py's.
"""

from __future__ import annotations

import inspect
import logging
import math
import random
from collections.abc import Iterator, Sequence as SequenceOf
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch

from myserve_ui.core.sampling_params import SamplingDefaults, SamplingParams
from myserve_ui.engine.blocks.runner import BlockRunner
from myserve_ui.engine.module.errors import explain_module_errors
from myserve_ui.engine.rows.attention import FEW_THREADS
from myserve_ui.engine.rows.runner import ModelRunner
from myserve_ui.engine.scheduler import ScheduledBatch, ScheduledChunk
from myserve_ui.engine.sequence import EngineRequest, Sequence
from myserve_ui.engine.slot_manager import ROUND_TO
from myserve_ui.errors import ModelLoadError

logger = logging.getLogger(__name__)

PROMPT_LENGTHS = (9, 21)
SPLITS = ((0, 4, 8, 9), (0, 13, 20, 21))
"""Where the chunks of each prompt begin and end; the last chunk of each is one token, like a decode step."""
ALONE = (0, 20, 21)
"""The same of the longer prompt when it is alone: many tokens in one chunk, with nobody beside them."""

TOLERANCE = {torch.float32: 2e-3, torch.float16: 3e-2, torch.bfloat16: 8e-2}
"""Largest difference of a logit allowed, as a share of the largest logit: rounding in another order of sums."""

NOISE_FACTOR, MOST_NOISE = 3.0, 0.3
"""A module that rounds activations inside its layers differs from itself; the engine may, a few times as much.

But never beyond a bound that a wrong attention exceeds.
"""
NUDGE = 2**-18
"""Share by which embeddings are moved to see such noise: about what sums in another order move a float32.

In two runs that happen to round alike it would stay unseen. A module in float32 answers with as little, one that rounds
to fewer bits inside with whole steps of its own.
"""


@dataclass(frozen=True, slots=True)
class Reference:
    """What the module computes by itself."""

    logits: tuple[torch.Tensor, ...]
    """[vocab_size] after each check prompt."""
    noise: float
    """How far the module is from itself when the same tokens, a NUDGE away, are computed in another company."""


@torch.inference_mode()
def reference_logits(module: torch.nn.Module, vocab_size: int) -> Reference:
    """The check prompts by the module's own forward. Call before the runner is made."""
    short, long = _prompts(vocab_size)
    cut = long[: len(short)]
    own, whole = _forward(module, [short])[0], _forward(module, [long])[0]
    with _nudged_embeddings(module):
        side_by_side = _forward(module, [short, cut]).flatten(0, 1)
    pairs = zip(side_by_side, [*own, *whole[: len(cut)]], strict=True)
    return Reference((own[-1], whole[-1]), max(relative_difference(*pair) for pair in pairs))


@contextmanager
def _nudged_embeddings(module: torch.nn.Module) -> Iterator[None]:
    """Every number that `module` reads for a token, moved up or down by NUDGE of itself."""
    generator = torch.Generator().manual_seed(0)

    def nudge(_part: torch.nn.Module, _inputs: Any, vectors: torch.Tensor) -> torch.Tensor:
        signs = torch.randint(0, 2, vectors.shape, generator=generator).to(vectors) * 2 - 1
        return vectors * (1 + NUDGE * signs)

    handle = module.get_input_embeddings().register_forward_hook(nudge)  # type: ignore[operator]
    try:
        yield
    finally:
        handle.remove()


def _forward(module: torch.nn.Module, prompts: list[list[int]]) -> torch.Tensor:
    """Logits [prompts, length, vocab_size] in float32."""
    device = module.get_input_embeddings().weight.device  # type: ignore[operator]
    logits: torch.Tensor = module(input_ids=torch.tensor(prompts, device=device), use_cache=False).logits
    return logits.float()


def check_runner(runner: ModelRunner | BlockRunner, expected: Reference, vocab_size: int) -> float:
    """Largest difference from `expected` as a share of the largest logit.

    Raises ModelLoadError if it is beyond rounding, or if some layers keep their keys and values elsewhere.
    """
    short, long = _prompts(vocab_size)
    with explain_module_errors(runner.module):
        side_by_side = run_chunks(runner, [short, long], SPLITS)
        alone = run_chunks(runner, [long], [ALONE])
    pairs = zip([*side_by_side, *alone], [*expected.logits, expected.logits[-1]], strict=True)
    difference = max(relative_difference(*pair) for pair in pairs)
    _refuse_if_wrong(runner, difference, expected)
    return difference


def run_chunks(
    runner: ModelRunner | BlockRunner, prompts: SequenceOf[list[int]], splits: SequenceOf[SequenceOf[int]]
) -> torch.Tensor:
    """Logits [prompts, vocab_size] after each of `prompts`, cut into chunks at its `splits`; all end in one step."""
    sequences = [_sequence(index, prompt) for index, prompt in enumerate(prompts)]
    allocated = [_rounded(len(prompt)) for prompt in prompts]
    runner.reserve(allocated + [0] * (runner.num_slots - len(allocated)))
    spans = [list(pairwise(split)) for split in splits]
    steps = max(map(len, spans))
    for step in range(steps):
        last = step == steps - 1
        chunks = [
            ScheduledChunk(sequence, own[index][0], own[index][1] - own[index][0], slot, samples=last)
            for slot, (sequence, own) in enumerate(zip(sequences, spans, strict=True))
            if (index := step - steps + len(own)) >= 0
        ]
        batch = ScheduledBatch(tuple(sorted(chunks, key=lambda chunk: (chunk.length > 1, chunk.slot))))
        logits = runner.forward(batch)
    return logits


def check_row_runner(runner: ModelRunner, expected: Reference, vocab_size: int) -> None:
    """The same for all ways in which `runner` may compute: with compiled loops, and on many threads without them too.

    Loops that fail are given up, if it is right without. Raises ModelLoadError.
    """
    has_loops, failure = runner.has_loops, None
    if has_loops:
        try:
            check_runner(runner, expected, vocab_size)
        except Exception as error:  # a compiler's failure too
            failure = error
    if failure or not has_loops or torch.get_num_threads() > FEW_THREADS:
        runner.has_loops = False
        check_runner(runner, expected, vocab_size)
        runner.has_loops = has_loops and failure is None
    if failure:
        logger.warning("%s is served without compiled loops, more slowly: %s", type(runner.module).__name__, failure)


def _refuse_if_wrong(runner: ModelRunner | BlockRunner, difference: float, expected: Reference) -> None:
    architecture = type(runner.module).__name__
    if math.isnan(difference) or not all(row.isfinite().all() for row in expected.logits):
        dtype = str(runner.dtype).removeprefix("torch.")
        way_out = (
            "its weights are damaged, download or copy them again; or its config.json asks for what cannot be computed"
            if runner.dtype is torch.float32
            else "load it with fp32 or bf16, and if that does not help, download or copy its weights again"
        )
        raise ModelLoadError(f"{architecture} computes values that are not numbers in {dtype}; {way_out}.")
    if not runner.cache.num_layers:
        raise ModelLoadError(f"{architecture} cannot be served: its layers do not use the shared attention interface.")
    tolerance = tolerance_of(runner.dtype, expected.noise)
    if not difference <= tolerance:
        raise ModelLoadError(
            f"{architecture} cannot be served right: batched logits differ from the model's own forward by "
            f"{difference:.2%} of the largest logit, more than rounding ({tolerance:.2%}). "
            f"{_probable_reason(runner.module)}."
        )


def _probable_reason(module: torch.nn.Module) -> str:
    if "position_ids" not in inspect.signature(module.forward).parameters:
        return "It counts the positions of its tokens itself and cannot be told them, as a batch of many texts must"
    return (
        "It probably mixes tokens outside attention, counts positions in a way of its own, uses an attention that the "
        "engine does not know, or rounds a token by what is beside it, as int8 does where experts are chosen"
    )


def tolerance_of(dtype: torch.dtype, noise: float) -> float:
    """How far logits may be from the module's own, as a share of the largest; `noise` is how far it is from itself."""
    return max(TOLERANCE.get(dtype, TOLERANCE[torch.bfloat16]), min(NOISE_FACTOR * noise, MOST_NOISE))


def _sequence(index: int, prompt: list[int]) -> Sequence:
    params = SamplingParams(temperature=0.0, max_tokens=1).resolve(SamplingDefaults())
    return Sequence(index, EngineRequest(f"check-{index}", tuple(prompt), params, arrival=0.0), lambda _ids: "")


def _prompts(vocab_size: int) -> list[list[int]]:
    generator = random.Random(0)
    return [[generator.randrange(vocab_size) for _ in range(length)] for length in PROMPT_LENGTHS]


def _rounded(num_tokens: int) -> int:
    return -(-num_tokens // ROUND_TO) * ROUND_TO


def relative_difference(actual: torch.Tensor, expected: torch.Tensor) -> float:
    """The largest difference as a share of the largest number."""
    scale = expected.abs().max().clamp_min(1e-6)
    return ((actual - expected.to(actual.device)).abs().max() / scale).item()
