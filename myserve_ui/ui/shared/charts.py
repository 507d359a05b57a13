"""Small charts as HTML and SVG in the page's own colours: no plotting library, no script, dark mode for free."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

LOWEST, HIGHEST = -8, 1
"""Powers of ten that divergence is shown between; what is below is rounding."""
BINS_PER_DECADE = 2
WIDTH, HEIGHT = 1000, 100
"""Of the drawing; it is stretched to the room it gets."""


def log_histogram(values: Sequence[float], *, label: str) -> str:
    """Bars over powers of ten: how many of `values` lie in each half decade. Zeros are in the first bar."""
    counts = [0] * ((HIGHEST - LOWEST) * BINS_PER_DECADE)
    for value in values:
        counts[min(len(counts) - 1, int((_decade(value) - LOWEST) * BINS_PER_DECADE))] += 1
    tallest = max(counts) or 1
    bars = "".join(
        f'<i style="height:{100 * number / tallest:.1f}%" title="{_bin_name(index)}: {number:,} tokens"></i>'
        for index, number in enumerate(counts)
    )
    return (
        f'<figure class="chart"><figcaption>{escape(label)}</figcaption>'
        f'<div class="bars" role="img" aria-label="{escape(_summary(counts))}">{bars}</div>'
        f'<div class="axis" aria-hidden="true">{"".join(map(_power, range(LOWEST, HIGHEST + 1)))}</div></figure>'
    )


def log_curve(values: Sequence[float], *, label: str, mark: int | None = None) -> str:
    """`values` along the tokens of an answer over powers of ten; `mark` is the index of a token to point at."""
    if not values:
        return ""
    step = WIDTH / len(values)
    points = [(step * (index + 0.5), _height(value)) for index, value in enumerate(values)]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    area = f"{points[0][0]:.1f},{HEIGHT} {line} {points[-1][0]:.1f},{HEIGHT}"
    pointer = (
        ""
        if mark is None
        else f'<line class="mark" x1="{points[mark][0]:.1f}" x2="{points[mark][0]:.1f}" y1="0" y2="{HEIGHT}"/>'
    )
    powers = "".join(
        f'<span style="top:{_height(10.0**power):.0f}%">10{_superscript(power)}</span>' for power in (-6, -3, 0)
    )
    return (
        f'<figure class="chart"><figcaption>{escape(label)}</figcaption><div class="curve">'
        f'<div class="powers" aria-hidden="true">{powers}</div>'
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" role="img" '
        f'aria-label="{len(values)} tokens, largest {max(values):.2g} at token {values.index(max(values)) + 1}">'
        f'<polygon points="{area}"/><polyline points="{line}"/>{pointer}</svg></div></figure>'
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


def _power(power: int) -> str:
    return f"<span>10{_superscript(power)}</span>"


def _superscript(power: int) -> str:
    return f"<sup>{power}</sup>".replace("-", "−")
