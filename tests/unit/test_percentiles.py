"""Nearest rank against numpy, and where numpy's rounding misses by a place."""

import random

import numpy as np
import pytest

from myserve_ui.core.percentiles import nearest_ranks

SHARES = (500, 900, 950, 990)


@pytest.mark.parametrize("size", [1, 2, 3, 10, 99, 100, 101, 1000, 4321])
def test_they_are_those_of_numpy(size):
    generator = random.Random(size)
    values = [generator.gauss(0, 1) for _ in range(size)]
    expected = np.percentile(values, [share / 10 for share in SHARES], method="inverted_cdf")
    assert nearest_ranks([(value, 1) for value in values], SHARES) == list(expected)


@pytest.mark.parametrize("seed", range(20))
def test_values_that_happened_often_count_as_often(seed):
    generator = random.Random(seed)
    counted = [(generator.choice([generator.random(), 0.5]), generator.randint(1, 1000)) for _ in range(30)]
    repeated = [(value, 1) for value, count in counted for _ in range(count)]
    assert nearest_ranks(counted, SHARES) == nearest_ranks(repeated, SHARES)


def test_the_rank_of_999_in_1000_is_the_999th():
    values = range(1, 1001)
    assert nearest_ranks([(value, 1) for value in values], [999]) == [999]
    assert np.percentile(values, 99.9, method="inverted_cdf") == 1000


def test_nothing_has_none():
    with pytest.raises(ValueError, match="nothing"):
        nearest_ranks([], SHARES)
