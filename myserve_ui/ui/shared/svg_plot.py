"""Draws a plot as SVG in the page's own colours. Text keeps its size at every width; values are told on hover."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape

Tick = tuple[float, str]
WIDEST_RATIO = 20.0
"""Values further apart than this are drawn over powers of ten."""
STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
MOST_TICKS = 7
NUM_HUES, NUM_DASHES = 6, 4


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


def draw(plot: Plot) -> str:
    """HTML of the whole figure."""
    lines = "".join(_line(plot, series) for series in plot.series if series.is_joined)
    dots = "".join(_dots(plot, series) for series in plot.series if series.has_dots)
    return figure(
        plot.title,
        f"{_grid(plot)}{_notes(plot)}"
        f'<svg viewBox="0 0 100 100" preserveAspectRatio="none" width="100%" height="100%">{lines}</svg>{dots}',
        legend=_legend(plot.series),
        caption=plot.caption,
        height=plot.height,
    )


def figure(title: str, body: str, *, legend: str = "", caption: str = "", height: int = 220) -> str:
    """A figure around SVG elements in percent of its room, with the title for those who cannot see it too."""
    words = escape(title)
    return (
        f'<figure class="plot"><h4>{words}</h4>{legend}<div class="area" style="min-height:{height}px">'
        f'<svg width="100%" height="100%" role="img" aria-label="{words}">{body}</svg></div>'
        f"<figcaption>{escape(caption)}</figcaption></figure>"
    )


def _legend(series: Sequence[Series]) -> str:
    """Names with their colours, equal ones once."""
    items = "".join(
        f'<li><svg width="18" height="8" aria-hidden="true">{swatch}</svg>{escape(name)}</li>'
        for name, swatch in dict.fromkeys((one.name, _swatch(one)) for one in series)
        if name
    )
    return f'<ul class="legend">{items}</ul>' if items else ""


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


def _grid(plot: Plot) -> str:
    across = "".join(
        f'<line class="grid" x1="0" x2="100%" y1="{_up(plot, value)}" y2="{_up(plot, value)}"/>'
        f'<text class="tick" x="0" dx="-6" dy="3.5" text-anchor="end" y="{_up(plot, value)}">{escape(words)}</text>'
        for value, words in plot.y.ticks
    )
    along = "".join(
        f'<text class="tick" x="{plot.x.place(value):.2f}%" y="100%" dy="15" text-anchor="middle">'
        f"{escape(words)}</text>"
        for value, words in plot.x.ticks
    )
    return (
        f'<g aria-hidden="true">{across}{along}<line class="axis" x1="0" x2="100%" y1="100%" y2="100%"/>'
        f'<text class="name" x="50%" y="100%" dy="31" text-anchor="middle">{escape(plot.x.label)}</text>'
        f'<text class="name" x="0" dx="-44" y="0" dy="-10">{escape(plot.y.label)}</text></g>'
    )


def _notes(plot: Plot) -> str:
    return "".join(
        f'<line class="note" x1="{plot.x.place(value):.2f}%" x2="{plot.x.place(value):.2f}%" y1="0" y2="100%"/>'
        f'<text class="note" x="{plot.x.place(value):.2f}%" y="100%" {_beside(plot.x.place(value))} dy="-6">'
        f"{escape(words)}</text>"
        for value, words in plot.notes
    )


def _beside(percent: float) -> str:
    """On the side where there is room."""
    return 'dx="-5" text-anchor="end"' if percent > 50 else 'dx="5"'


def _line(plot: Plot, series: Series) -> str:
    points = " ".join(f"{plot.x.place(mark.x):.2f},{100 - plot.y.place(mark.y):.2f}" for mark in series.marks)
    return f'<polyline class="{_style(series.hue, series.dash)}" points="{points}"/>'


def _dots(plot: Plot, series: Series) -> str:
    return "".join(_dot(series, plot.x.place(mark.x), 100 - plot.y.place(mark.y), mark.title) for mark in series.marks)


def _dot(series: Series, x: float, y: float, title: str) -> str:
    """A mark at percent (x, y) from the top left."""
    words, style = f"<title>{escape(title)}</title>", _style(series.hue, 0)
    if series.is_square:
        return (
            f'<svg x="{x:.2f}%" y="{y:.2f}%" overflow="visible"><rect class="{style}" x="-4" y="-4" width="8" '
            f'height="8">{words}</rect></svg>'
        )
    return f'<circle class="{style}" cx="{x:.2f}%" cy="{y:.2f}%" r="4">{words}</circle>'


def _swatch(series: Series) -> str:
    style = _style(series.hue, series.dash)
    if series.is_square:
        return f'<rect class="{style}" x="5" y="0" width="8" height="8"/>'
    if not series.is_joined:
        return f'<circle class="{style}" cx="9" cy="4" r="4"/>'
    return f'<line class="{style}" x1="0" x2="18" y1="4" y2="4"/>'


def _style(hue: int, dash: int) -> str:
    return f"hue-{hue % NUM_HUES} dash-{dash % NUM_DASHES}"


def _up(plot: Plot, value: float) -> str:
    return f"{100 - plot.y.place(value):.2f}%"
