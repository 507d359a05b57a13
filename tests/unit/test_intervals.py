"""Intervals against tables and against numbers worked out by hand."""

import math

import pytest

from myserve_ui.bench.documents.intervals import Difference, paired_difference, t_quantile, unpaired_difference


@pytest.mark.parametrize(
    ("degrees", "expected"), [(1, 12.706), (2, 4.303), (5, 2.571), (10, 2.228), (30, 2.042), (120, 1.980), (1e6, 1.960)]
)
def test_quantiles_are_those_of_the_table(degrees, expected):
    assert t_quantile(degrees) == pytest.approx(expected, abs=0.0006)


def test_a_paired_difference_by_hand():
    found = paired_difference([1.0, 2.0, 3.0], [2.0, 4.0, 6.0])  # 1, 2, 3: mean 2, deviation 1
    assert (found.mean, found.n) == (2.0, 3)
    assert (found.low, found.high) == pytest.approx((2 - 4.3027 / math.sqrt(3), 2 + 4.3027 / math.sqrt(3)), abs=1e-3)


def test_an_unpaired_difference_by_hand():
    found = unpaired_difference([1.0, 2.0, 3.0], [4.0, 5.0, 6.0])  # both variances 1: error sqrt(2/3), 4 degrees
    assert found.mean == 3.0
    assert found.high - found.mean == pytest.approx(2.7764 * math.sqrt(2 / 3), abs=1e-3)


def test_pairs_that_move_together_are_told_apart_where_unpaired_ones_are_not():
    a, b = [1.0, 10.0, 100.0], [2.0, 11.1, 101.0]
    assert paired_difference(a, b).low > 0
    assert unpaired_difference(a, b).low < 0 < unpaired_difference(a, b).high


def test_little_tells_little():
    assert paired_difference([], []) is None
    assert unpaired_difference([], [1.0]) is None
    assert paired_difference([1.0], [3.0]) == Difference(2.0, None, None, 1)
    assert unpaired_difference([1.0], [3.0, 4.0]) == Difference(2.5, None, None, 1)
    assert unpaired_difference([1.0, 1.0], [2.0, 2.0]) == Difference(1.0, 1.0, 1.0, 2)
