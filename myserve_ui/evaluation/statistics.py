"""Means with their standard errors, and percentiles by nearest rank."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from myserve_ui.errors import GenerationFailedError

LARGEST_LOSS = 500.0
PER_MILLE = {"median": 500, "p90": 900, "p95": 950, "p99": 990, "p999": 999}


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean and how sure it is."""

    value: float
    se: float
    """Standard error: the sample's standard deviation over the root of its size; 0 for a single number."""


def estimate(values: torch.Tensor) -> Estimate:
    """Mean of `values` [n], n >= 1, with its standard error."""
    exact = values.double()
    deviation = exact.std().item() if len(values) > 1 else 0.0
    return Estimate(exact.mean().item(), deviation / math.sqrt(len(values)))


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
    return Estimate(value, value * mean.se)


def percentiles(values: torch.Tensor) -> dict[str, float]:
    """Median, 90, 95, 99 and 99.9 % by nearest rank (a value that is among `values`), and the maximum."""
    ranked = values.double().sort().values
    ranks = {name: -(-len(ranked) * share // 1000) for name, share in PER_MILLE.items()}  # rounded up, in whole numbers
    return {name: ranked[rank - 1].item() for name, rank in ranks.items()} | {"max": ranked[-1].item()}
