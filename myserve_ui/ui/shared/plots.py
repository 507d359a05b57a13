"""Plots and small charts as SVG and HTML in the page's own colours: no plotting library, no script, dark for free.

Text keeps its size at every width; values are told on hover.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from myserve_ui.ui.shared.axes import Axis
from myserve_ui.ui.shared.templates import render

NUM_HUES, NUM_DASHES = 6, 4
LOWEST, HIGHEST = -8, 1
"""Powers of ten that divergence is shown between; what is below is rounding."""
BINS_PER_DECADE = 2
WIDTH, HEIGHT = 1000, 100
"""Of a curve; it is stretched to the room it gets."""


@dataclass(frozen=True, slots=True)
class Mark:
    """One point and what it says when pointed at."""

    x: float
    y: float
    title: str


@dataclass(frozen=True, slots=True)
class Series:
    """Points of one colour, joined or not. `hue` and `dash` are numbers of the style sheet's."""

    name: str
    marks: tuple[Mark, ...]
    hue: int = 0
    dash: int = 0
    is_joined: bool = True
    has_dots: bool = True
    is_square: bool = False

    @property
    def style(self) -> str:
        """Classes of the style sheet."""
        return f"hue-{self.hue % NUM_HUES} dash-{self.dash % NUM_DASHES}"

    @property
    def dot_style(self) -> str:
        return f"hue-{self.hue % NUM_HUES} dash-0"

    @property
    def swatch(self) -> str:
        """What stands beside its name in the legend."""
        return "square" if self.is_square else "line" if self.is_joined else "circle"


@dataclass(frozen=True, slots=True)
class Plot:
    """A title, two axes, what is between them, and below under which circumstances it was measured."""

    title: str
    x: Axis
    y: Axis
    series: tuple[Series, ...]
    caption: str = ""
    height: int = 220
    """Pixels at least."""
    notes: tuple[tuple[float, str], ...] = field(default=())
    """Places on the x axis with a word beside a thin line."""

    @property
    def legend(self) -> list[Series]:
        """One for each name and its colour, in the order in which they first come."""
        return list({(one.name, one.style, one.swatch): one for one in self.series if one.name}.values())


def draw(plot: Plot) -> Markup:
    """HTML of the whole figure."""
    return render("shared/plot", plot=plot, title=plot.title, caption=plot.caption, height=plot.height)


def log_histogram(values: Sequence[float], *, label: str) -> Markup:
    """Bars over powers of ten: how many of `values` lie in each half decade. Zeros are in the first bar."""
    counts = [0] * ((HIGHEST - LOWEST) * BINS_PER_DECADE)
    for value in values:
        counts[min(len(counts) - 1, int((_decade(value) - LOWEST) * BINS_PER_DECADE))] += 1
    tallest = max(counts) or 1
    return render(
        "shared/histogram",
        label=label,
        summary=_summary(counts),
        bars=[
            (100 * number / tallest, f"{_bin_name(index)}: {number:,} tokens") for index, number in enumerate(counts)
        ],
        powers=range(LOWEST, HIGHEST + 1),
    )


def log_curve(values: Sequence[float], *, label: str, mark: int | None = None) -> Markup:
    """`values` along the tokens of an answer over powers of ten; `mark` is the index of a token to point at."""
    if not values:
        return Markup()
    step = WIDTH / len(values)
    largest = max(values)
    return render(
        "shared/curve",
        label=label,
        summary=f"{len(values)} tokens, largest {largest:.2g} at token {values.index(largest) + 1}",
        points=[(step * (index + 0.5), _height(value)) for index, value in enumerate(values)],
        mark=mark,
        powers=[(power, _height(10.0**power)) for power in (-6, -3, 0)],
        size=(WIDTH, HEIGHT),
    )


def _decade(value: float) -> float:
    """log10 of `value`, kept within the chart."""
    return min(float(HIGHEST), max(float(LOWEST), math.log10(value))) if value > 0 else float(LOWEST)


def _height(value: float) -> float:
    """Distance from the top, in 0..HEIGHT."""
    return HEIGHT * (HIGHEST - _decade(value)) / (HIGHEST - LOWEST)


def _bin_name(index: int) -> str:
    low = LOWEST + index / BINS_PER_DECADE
    bounds = f"{10**low:.1g} to {10 ** (low + 1 / BINS_PER_DECADE):.1g}"
    return f"below {10 ** (low + 1 / BINS_PER_DECADE):.1g}" if index == 0 else bounds


def _summary(counts: Sequence[int]) -> str:
    fullest = max(range(len(counts)), key=counts.__getitem__)
    return f"{sum(counts):,} tokens; most, {counts[fullest]:,}, have {_bin_name(fullest)}"
