"""How many rows a product should have for each of them to come out the same, to the last bit, whatever is beside it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RowLadder:
    """Numbers of rows that a processor's products sum up alike. Fewer are filled up to the next of them."""

    rungs: tuple[int, ...] = ()
    """Ascending, of those that were tried."""
    unit: int = 1
    """Above the last rung, multiples of it."""

    def fit(self, rows: int) -> int:
        """The least number of rows, from `rows` on, that is computed alike."""
        for rung in self.rungs:
            if rung >= rows:
                return rung
        return -(-rows // self.unit) * self.unit


def common_ladder(alike: Iterable[frozenset[int]], tried: tuple[int, ...]) -> RowLadder | None:
    """The ladder of several products, of each of which we know which of the `tried` numbers of rows are alike.

    None if no unit is: then no number of rows can be relied on.
    """
    rungs = frozenset(tried).intersection(*alike)
    for unit in sorted(rungs):
        if all(number in rungs for number in tried if number % unit == 0):
            return RowLadder(tuple(sorted(rungs)), unit)
    return None
