"""Percentiles by nearest rank, in whole numbers: numpy's inverted_cdf takes the 1000th of 1000 values for 99.9 %."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterable, Sequence


def nearest_ranks(counted: Iterable[tuple[float, int]], per_mille: Sequence[int]) -> list[float]:
    """For each share the smallest value that at least so many ‰ do not exceed: a number that happened.

    Values come with how often each happened, so that a million equal ones take no memory. Raises ValueError of nothing.
    """
    ranked = sorted(counted)
    ends = list(itertools.accumulate(count for _, count in ranked))
    if not ends:
        raise ValueError("nothing has no percentiles")
    return [ranked[bisect.bisect_left(ends, -(-ends[-1] * share // 1000))][0] for share in per_mille]
