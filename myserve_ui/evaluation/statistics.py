"""Means with their standard errors, and percentiles by nearest rank."""

from __future__ import annotations

import math

import torch

from myserve_ui.core.percentiles import nearest_ranks
from myserve_ui.errors import GenerationFailedError
from myserve_ui.evaluation.documents import DeltaP, Estimate, Mean, Share, Spread

LARGEST_LOSS = 500.0
PER_MILLE = {"median": 500, "p90": 900, "p95": 950, "p99": 990, "p999": 999}


def estimate(values: torch.Tensor) -> Estimate:
    """Mean of `values` [n], n >= 1, with its standard error."""
    exact = values.double()
    deviation = exact.std().item() if len(values) > 1 else 0.0
    return Estimate(value=exact.mean().item(), se=deviation / math.sqrt(len(values)))


def mean_of(values: torch.Tensor) -> Mean:
    found = estimate(values)
    return Mean(mean=found.value, se=found.se)


def share_of(is_so: torch.Tensor) -> Share:
    """Of `is_so` [n], flags."""
    found = estimate(is_so.float())
    return Share(share=found.value, se=found.se)


def spread_of(values: torch.Tensor) -> Spread:
    """Mean and percentiles of `values` [n]."""
    found = estimate(values)
    return Spread(mean=found.value, se=found.se, **percentiles(values))


def delta_p_of(values: torch.Tensor) -> DeltaP:
    """The same with their root mean square."""
    found = estimate(values)
    return DeltaP(mean=found.value, se=found.se, **percentiles(values), rms=values.square().mean().sqrt().item())


def perplexity(nll: torch.Tensor) -> Estimate:
    """exp of the mean loss, with SE(PPL) = PPL x SE(mean loss), its first-order propagation.

    Raises GenerationFailedError for a loss whose exponential is no number any more.
    """
    mean = estimate(nll)
    if not mean.value <= LARGEST_LOSS:
        raise GenerationFailedError(
            f"The mean loss is {mean.value:.3g} nats and may be {LARGEST_LOSS:g}: the model's logits are out of all "
            "bounds, so its weights may be damaged."
        )
    value = math.exp(mean.value)
    return Estimate(value=value, se=value * mean.se)


def percentiles(values: torch.Tensor) -> dict[str, float]:
    """Median, 90, 95, 99 and 99.9 % by nearest rank (a value that is among `values`), and the maximum."""
    found = nearest_ranks(((value, 1) for value in values.double().tolist()), [*PER_MILLE.values(), 1000])
    return dict(zip((*PER_MILLE, "max"), found, strict=True))
