"""Logits of given ids from a serving engine, and how far rounding alone moves them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import torch

from myserve_ui.evaluation.token_scores import TokenScores, score_tokens
from myserve_ui.serving.engine_pool import RunningEngine
from myserve_ui.serving.prompt_scoring import score_prompt


async def collect_logits(engine: RunningEngine, token_ids: Sequence[int], *, first_scored: int = 1) -> torch.Tensor:
    """Logits [len(token_ids) - first_scored, vocab] that lead up to each token from `first_scored` on.

    They come through the engine's own batches, beside the requests of users.
    """
    parts: list[torch.Tensor] = []
    await score_prompt(engine, token_ids, parts.append, first_scored=first_scored)
    return torch.cat(parts)


async def measure_noise(engine: RunningEngine, token_ids: Sequence[int], *, first_scored: int = 1) -> TokenScores:
    """The engine against itself, alone and in a batch of another shape: what rounding alone changes."""
    alone = await collect_logits(engine, token_ids, first_scored=first_scored)
    twice = await asyncio.gather(
        collect_logits(engine, token_ids, first_scored=first_scored),
        collect_logits(engine, token_ids, first_scored=first_scored),
    )
    return await asyncio.to_thread(score_tokens, alone, twice[1], token_ids[first_scored:])
