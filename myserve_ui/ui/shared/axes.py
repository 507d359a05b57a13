"""Axes of plots: from where to where, linear or over powers, and what is told along them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Tick = tuple[float, str]
WIDEST_RATIO = 20.0
"""Values further apart than this are drawn over powers of ten."""
STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
MOST_TICKS = 7


@dataclass(frozen=True, slots=True)
class Axis:
    """What stands where along one side."""

    label: str
    low: float
    high: float
    ticks: tuple[Tick, ...]
    is_log: bool = False

    def place(self, value: float) -> float:
        """Percent of the way from `low` to `high`, kept within."""
        low, high, value = (self._scale(number) for number in (self.low, self.high, value))
        return min(100.0, max(0.0, 100 * (value - low) / (high - low)))

    def _scale(self, value: float) -> float:
        return math.log10(max(value, 1e-300)) if self.is_log else value


def linear_axis(label: str, values: Iterable[float]) -> Axis:
    """From zero to a round number above the largest of `values`."""
    largest = max((value for value in values if math.isfinite(value)), default=0.0) or 1.0
    rough = largest / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = power * next(factor for factor in STEPS if factor * power >= rough * 0.999)
    count = math.ceil(largest / step - 1e-9)
    ticks = tuple((step * index, number(step * index)) for index in range(count + 1))
    return Axis(label, 0.0, step * count, ticks)


def log_axis(label: str, values: Iterable[float], *, marks: Sequence[float] = ()) -> Axis:
    """Around the positive ones of `values` with some room, over powers; `marks` are told in place of powers of ten."""
    positive = [value for value in values if value > 0 and math.isfinite(value)] or [1.0]
    low, high = min(positive) / 1.25, max(positive) * 1.25
    if marks:
        return Axis(label, low, high, tuple((mark, number(mark)) for mark in marks), is_log=True)
    low, high = _whole_step(low, down=True), _whole_step(high, down=False)
    return Axis(label, low, high, tuple((tick, number(tick)) for tick in _log_ticks(low, high)), is_log=True)


def fitting_axis(label: str, values: Sequence[float]) -> Axis:
    """Linear, or over powers of ten where the largest of `values` is many times the smallest."""
    positive = [value for value in values if value > 0]
    if positive and max(positive) / min(positive) > WIDEST_RATIO:
        return log_axis(label, positive)
    return linear_axis(label, values)


def number(value: float) -> str:
    """A short number for an axis: 0.05, 250, 4k, 1.5M, 2G."""
    for factor, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= factor * 0.9995:
            return f"{value / factor:.3g}{unit}"
    return f"{value:.3g}"


def _whole_step(value: float, *, down: bool) -> float:
    """The next of 1, 2, 5 x 10^n below or above."""
    power = 10.0 ** math.floor(math.log10(value))
    steps = [factor * power for factor in (1, 2, 5, 10)]
    if down:
        return max((step for step in steps if step <= value * 1.0001), default=power)
    return min((step for step in steps if step >= value * 0.9999), default=10 * power)


def _log_ticks(low: float, high: float) -> list[float]:
    """1, 2, 5 of each power where there is room, else 1 and 3, else the powers alone, thinned to at most seven."""
    powers = range(math.floor(math.log10(low) + 1e-9), math.ceil(math.log10(high) - 1e-9) + 1)
    for factors in ((1, 2, 5), (1, 3), (1,)):
        ticks = [factor * 10.0**power for power in powers for factor in factors]
        inside = [tick for tick in ticks if low * 0.999 <= tick <= high * 1.001]
        if len(inside) <= MOST_TICKS:
            break
    return inside[:: math.ceil(len(inside) / MOST_TICKS)]
