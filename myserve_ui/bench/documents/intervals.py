"""How sure a mean difference is: 95 % intervals by Student's t, paired or not."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

CONFIDENCE = 0.95
SIMPSON_STEPS = 400
BISECTIONS = 60
LARGEST_T = 64.0
"""Of one degree of freedom at up to 99 % confidence; the integral is too rough far beyond it."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The mean of b - a and its 95 % interval."""

    mean: float
    low: float | None
    """None where one value cannot tell how values spread."""
    high: float | None
    n: int
    """Pairs, or the values of the smaller side."""


def paired_difference(a: Sequence[float], b: Sequence[float]) -> Difference | None:
    """From values that belong together, place by place; None of nothing. Raises OverflowError as the unpaired one."""
    differences = [right - left for left, right in zip(a, b, strict=True)]
    if not differences:
        return None
    mean, n = statistics.fmean(differences), len(differences)
    if n < 2:
        return Difference(mean, None, None, n)
    margin = t_quantile(n - 1) * statistics.stdev(differences) / math.sqrt(n)
    return Difference(mean, mean - margin, mean + margin, n)


def unpaired_difference(a: Sequence[float], b: Sequence[float]) -> Difference | None:
    """From independent values, by Welch: the two sides may spread differently; None if a side is empty.

    Raises OverflowError if squares of the values are too large for a float.
    """
    if not a or not b:
        return None
    mean, n = statistics.fmean(b) - statistics.fmean(a), min(len(a), len(b))
    if n < 2:
        return Difference(mean, None, None, n)
    errors = [statistics.variance(values) / len(values) for values in (a, b)]
    if not (total := sum(errors)):
        return Difference(mean, mean, mean, n)
    shares = [error / total for error in errors]  # whose squares are in reach, however small the errors are
    degrees = 1 / sum(share**2 / (len(values) - 1) for share, values in zip(shares, (a, b), strict=True))
    margin = t_quantile(degrees) * math.sqrt(total)
    return Difference(mean, mean - margin, mean + margin, n)


def t_quantile(degrees: float, confidence: float = CONFIDENCE) -> float:
    """t such that a Student variable of `degrees` >= 1 degrees of freedom is within ±t with `confidence`."""
    low, high = 0.0, math.atan(LARGEST_T / math.sqrt(degrees))
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if _share_within(middle, degrees) < confidence else (low, middle)
    return math.sqrt(degrees) * math.tan((low + high) / 2)


def _share_within(angle: float, degrees: float) -> float:
    """Share of Student's distribution within ±sqrt(degrees) tan(angle): there it is the integral of a power of cos."""
    step = angle / SIMPSON_STEPS
    heights: list[float] = [max(math.cos(index * step), 0.0) ** (degrees - 1) for index in range(SIMPSON_STEPS + 1)]
    integral = step / 3 * (heights[0] + 4 * sum(heights[1:-1:2]) + 2 * sum(heights[2:-1:2]) + heights[-1])
    return 2 / math.sqrt(math.pi) * math.exp(math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2)) * integral
