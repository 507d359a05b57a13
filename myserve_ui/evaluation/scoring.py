"""Logits of given ids from a serving engine, and how far rounding alone moves them."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from myserve_ui.errors import GenerationFailedError
from myserve_ui.evaluation.token_scores import TokenScores, score_tokens
from myserve_ui.serving.engine_pool import RunningEngine
from myserve_ui.serving.prompt_scoring import score_prompt
from myserve_ui.serving.step_loop import on_own_thread

COMPANION_TOKENS = 37
"""Shifts every border between the chunks of a prompt; no power of two, on which kernels are at their best."""


async def collect_logits(engine: RunningEngine, token_ids: Sequence[int], *, first_scored: int = 1) -> torch.Tensor:
    """Logits [len(token_ids) - first_scored, vocab] that lead up to each token from `first_scored` on.

    They come through the engine's own batches, beside the requests of users. Raises GenerationFailedError for values
    that are not numbers, and what score_prompt raises.
    """
    return (await _collect(engine, token_ids, first_scored=first_scored))[0]


async def measure_noise(
    engine: RunningEngine, token_ids: Sequence[int], *, first_scored: int = 1
) -> TokenScores | None:
    """The engine against itself in batches of another shape: what rounding alone changes; None if there was none.

    The other batch has another sequence beside the text. Where none comes beside it (one place in the engine, or all
    but one taken), the text is made longer; if nothing differs then, it may have been the same batch after all.
    """
    alone = await collect_logits(engine, token_ids, first_scored=first_scored)
    companion = token_ids[:COMPANION_TOKENS]
    beside, is_beside = await _collect(engine, token_ids, first_scored=first_scored, companion=companion)
    if not is_beside:
        longer = [*token_ids, *companion]
        if len(longer) > engine.max_model_len:
            return None
        beside = (await collect_logits(engine, longer, first_scored=first_scored))[: len(alone)]
    noise = await on_own_thread(score_tokens, alone, beside, token_ids[first_scored:])
    return noise if is_beside or bool(noise.max_difference.any()) else None


async def _collect(
    engine: RunningEngine, token_ids: Sequence[int], *, first_scored: int, companion: Sequence[int] = ()
) -> tuple[torch.Tensor, bool]:
    """The logits, and whether the `companion` was in the same batch."""
    parts: list[torch.Tensor] = []
    is_beside = await score_prompt(engine, token_ids, parts.append, first_scored=first_scored, companion=companion)
    logits = await on_own_thread(torch.cat, parts)
    if (row := await on_own_thread(find_unusable_row, logits)) is not None:
        raise GenerationFailedError(
            f"{engine.info.id} computed values that are not numbers before token {first_scored + row + 1} of the text. "
            "Load it with --dtype fp32 or bf16; if that does not help, its weights are damaged: copy them again."
        )
    return logits, is_beside


def find_unusable_row(logits: torch.Tensor) -> int | None:
    """The first row of `logits` [rows, vocab] that is no distribution; None if all are. -inf is a token ruled out."""
    if bool(logits.isfinite().all()):
        return None
    is_unusable = (logits.isnan() | logits.isposinf()).any(-1) | logits.isneginf().all(-1)
    return int(is_unusable.int().argmax()) if bool(is_unusable.any()) else None
