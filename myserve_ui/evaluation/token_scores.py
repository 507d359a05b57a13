"""What two models say of the same tokens, one number a token: losses, divergence, agreement.

Formulas and names follow llama.cpp's perplexity tool (KL divergence, delta p, same top token); all sums are in float32
or better, over the full vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch

from myserve_ui.errors import GenerationFailedError

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
