"""What two models say of the same tokens: logits of given ids from the serving engines, and one number a token of them.

Formulas and names follow llama.cpp's perplexity tool (KL divergence, delta p, same top token); all sums are in float32
or better, over the full vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch

from myserve_ui.errors import GenerationFailedError
from myserve_ui.serving.engine_pool import RunningEngine
from myserve_ui.serving.prompt_scoring import score_prompt
from myserve_ui.serving.step_loop import on_own_thread

COMPANION_TOKENS = 37
"""Shifts every border between the chunks of a prompt; no power of two, on which kernels are at their best."""
ROWS_AT_ONCE = 64
"""Rows of a vocabulary that are in float32 at the same time."""
OVERLAP = 10
"""How many of the likeliest tokens the overlap looks at."""


@dataclass(frozen=True, slots=True, eq=False)
class TokenScores:
    """One entry for each scored token; tensors [n] on the CPU."""

    nll_base: torch.Tensor
    """-ln p of the true token under the base."""
    nll_candidate: torch.Tensor
    kld: torch.Tensor
    """KL(base || candidate) over the whole vocabulary, in nats."""
    base_rank: torch.Tensor
    """0 if the true token is the base's likeliest."""
    candidate_rank: torch.Tensor
    same_top: torch.Tensor
    """True if both have the same likeliest token."""
    overlap: torch.Tensor
    """Share of the ten likeliest tokens that both have in common."""
    max_difference: torch.Tensor
    """Largest difference of any log-probability of the base's ten likeliest tokens: what rounding would change."""

    @property
    def delta_p(self) -> torch.Tensor:
        """p_candidate - p_base of the true token."""
        return (-self.nll_candidate).exp() - (-self.nll_base).exp()

    def __len__(self) -> int:
        return len(self.nll_base)


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


@torch.inference_mode()
def score_tokens(base: torch.Tensor, candidate: torch.Tensor, targets: Sequence[int]) -> TokenScores:
    """Scores of `targets` [n] under two models' logits [n, vocab], row by row.

    Raises GenerationFailedError if one of the models rules out what the other, or the text, has: that has no number.
    """
    ids = torch.tensor(targets, device=base.device)
    starts = range(0, len(targets), ROWS_AT_ONCE)
    scores = join_scores(
        [_score(*(rows[start : start + ROWS_AT_ONCE] for rows in (base, candidate, ids))) for start in starts]
    )
    _check_numbers(scores)
    return scores


def _check_numbers(scores: TokenScores) -> None:
    columns = (scores.nll_base, scores.nll_candidate, scores.kld, scores.max_difference)
    is_number = torch.stack([column.isfinite() for column in columns]).all(0)
    if not bool(is_number.all()):
        place = int(is_number.logical_not().int().argmax())
        raise GenerationFailedError(
            f"Scored token {place + 1} has no score: a model gives it, or a token that the other expects, the "
            "probability 0. Score another text, or compare other models."
        )


def join_scores(parts: Sequence[TokenScores]) -> TokenScores:
    """One after the other."""
    return TokenScores(*(torch.cat([getattr(part, field.name) for part in parts]) for field in fields(TokenScores)))


def _score(base: torch.Tensor, candidate: torch.Tensor, ids: torch.Tensor) -> TokenScores:
    log_base = torch.log_softmax(base.float(), dim=-1)  # [rows, vocab]
    log_candidate = torch.log_softmax(candidate.float().to(base.device), dim=-1)
    true_base, true_candidate = (logs.gather(-1, ids[:, None])[:, 0] for logs in (log_base, log_candidate))
    top_base, top_candidate = (logs.topk(min(OVERLAP, logs.shape[-1])).indices for logs in (log_base, log_candidate))
    # a token that both rule out differs by nothing, where -inf - -inf would be no number
    differences = torch.where(log_base == log_candidate, 0.0, log_base - log_candidate)
    # exp(log p) * (difference), summed in float64: the terms are tiny and of both signs
    kld = (
        torch.where(log_base.isneginf(), 0.0, log_base.exp() * differences).sum(-1, dtype=torch.float64).clamp_min(0.0)
    )
    return TokenScores(
        nll_base=-true_base.cpu(),
        nll_candidate=-true_candidate.cpu(),
        kld=kld.float().cpu(),
        base_rank=(log_base > true_base[:, None]).sum(-1).cpu(),
        candidate_rank=(log_candidate > true_candidate[:, None]).sum(-1).cpu(),
        same_top=(top_base[:, 0] == top_candidate[:, 0]).cpu(),
        overlap=(top_base[:, :, None] == top_candidate[:, None, :]).any(-1).float().mean(-1).cpu(),
        max_difference=differences.gather(-1, top_base).abs().max(-1).values.cpu(),
    )
