"""Before a model serves anybody: does it compute the same through the engine as by itself?

Two prompts of different lengths run through the runner, in uneven chunks and side by side, and their logits are held
against the module's own plain forward. This is what makes "any model" an honest claim: a family whose attention the
engine does not reproduce is refused with the reason.
"""

from __future__ import annotations

import random

import torch

from myserve_ui.core.sampling_params import SamplingParams
from myserve_ui.engine.engine_request import EngineRequest
from myserve_ui.engine.model_runner import ModelRunner
from myserve_ui.engine.scheduler import ScheduledBatch, ScheduledChunk
from myserve_ui.engine.sequence import Sequence
from myserve_ui.errors import ModelLoadError

PROMPT_LENGTHS = (9, 21)
SPLITS = ((0, 4, 8, 9), (0, 13, 20, 21))
"""Where the chunks of each prompt begin and end; the last chunk of each is one token, like a decode step."""

TOLERANCE = {torch.float32: 2e-3, torch.float16: 3e-2, torch.bfloat16: 8e-2}
"""Largest difference of a logit allowed, as a share of the largest logit: rounding in another order of sums."""


@torch.inference_mode()
def reference_logits(module: torch.nn.Module, vocab_size: int) -> list[torch.Tensor]:
    """Logits [vocab_size] after each check prompt, by the module's own forward. Call before the runner is made."""
    device = module.get_input_embeddings().weight.device  # type: ignore[operator]
    prompts = [torch.tensor([prompt], device=device) for prompt in _prompts(vocab_size)]
    return [module(input_ids=prompt, use_cache=False).logits[0, -1].float() for prompt in prompts]


def check_runner(runner: ModelRunner, expected: list[torch.Tensor], vocab_size: int) -> float:
    """Largest difference from `expected` as a share of the largest logit.

    Raises ModelLoadError if it is beyond rounding, or if some layers keep their keys and values elsewhere.
    """
    sequences = [_sequence(index, prompt) for index, prompt in enumerate(_prompts(vocab_size))]
    runner.reserve([64] * len(sequences) + [0] * (runner.num_slots - len(sequences)))
    for step in range(len(SPLITS[0]) - 1):
        logits = runner.forward(_batch(sequences, step))
    difference = max(_relative_difference(*pair) for pair in zip(logits, expected, strict=True))
    _refuse_if_wrong(runner, difference, expected[0].isfinite().all().item() is True)
    return difference


def _refuse_if_wrong(runner: ModelRunner, difference: float, reference_is_finite: bool) -> None:
    architecture = type(runner.module).__name__
    if not reference_is_finite:
        raise ModelLoadError(
            f"{architecture} computes values that are not numbers in this dtype; load it with fp32 or bf16."
        )
    if not runner.cache.num_layers:
        raise ModelLoadError(f"{architecture} cannot be served: its layers do not use the shared attention interface.")
    tolerance = TOLERANCE.get(runner.dtype, TOLERANCE[torch.bfloat16])
    if not difference <= tolerance:
        raise ModelLoadError(
            f"{architecture} cannot be served right: batched logits differ from the model's own forward by "
            f"{difference:.2%} of the largest logit, more than rounding ({tolerance:.2%}). "
            "It probably mixes tokens outside attention, or uses an attention that the engine does not know."
        )


def _batch(sequences: list[Sequence], step: int) -> ScheduledBatch:
    last = step == len(SPLITS[0]) - 2
    chunks = [
        ScheduledChunk(sequence, splits[step], splits[step + 1] - splits[step], slot, samples=last)
        for slot, (sequence, splits) in enumerate(zip(sequences, SPLITS, strict=True))
    ]
    return ScheduledBatch(tuple(sorted(chunks, key=lambda chunk: (chunk.length > 1, chunk.slot))))


def _sequence(index: int, prompt: list[int]) -> Sequence:
    params = SamplingParams(temperature=0.0, max_tokens=1)
    return Sequence(index, EngineRequest(f"check-{index}", tuple(prompt), params, arrival=0.0), lambda _ids: "")


def _prompts(vocab_size: int) -> list[list[int]]:
    generator = random.Random(0)
    return [[generator.randrange(vocab_size) for _ in range(length)] for length in PROMPT_LENGTHS]


def _relative_difference(actual: torch.Tensor, expected: torch.Tensor) -> float:
    scale = expected.abs().max().clamp_min(1e-6)
    return ((actual - expected.to(actual.device)).abs().max() / scale).item()
