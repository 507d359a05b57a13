"""Logits of given ids from a serving engine, and how far rounding alone moves them."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from myserve_ui.evaluation.token_scores import TokenScores, score_tokens
from myserve_ui.serving.engine_pool import RunningEngine
from myserve_ui.serving.prompt_scoring import score_prompt
from myserve_ui.serving.step_thread import on_own_thread

COMPANION_TOKENS = 37
"""Shifts every border between the chunks of a prompt; no power of two, on which kernels are at their best."""


async def collect_logits(
    engine: RunningEngine, token_ids: Sequence[int], *, first_scored: int = 1, companion: Sequence[int] = ()
) -> torch.Tensor:
    """Logits [len(token_ids) - first_scored, vocab] that lead up to each token from `first_scored` on.

    They come through the engine's own batches, beside the requests of users and a `companion`, if there is one.
    """
    parts: list[torch.Tensor] = []
    await score_prompt(engine, token_ids, parts.append, first_scored=first_scored, companion=companion)
    return torch.cat(parts)


async def measure_noise(engine: RunningEngine, token_ids: Sequence[int], *, first_scored: int = 1) -> TokenScores:
    """The engine against itself, alone and in a batch of another shape: what rounding alone changes."""
    alone = await collect_logits(engine, token_ids, first_scored=first_scored)
    beside = await collect_logits(engine, token_ids, first_scored=first_scored, companion=token_ids[:COMPANION_TOKENS])
    return await on_own_thread(score_tokens, alone, beside, token_ids[first_scored:])
