"""Plots of a benchmark: throughput, latency and goodput over the load, percentiles, and the latency distribution."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from markupsafe import Markup

from myserve_ui.bench.client.records import Outcome
from myserve_ui.bench.documents.rows import Row
from myserve_ui.bench.documents.run import BenchmarkRun
from myserve_ui.bench.limits import Limits
from myserve_ui.bench.loads import ClosedLoop, Load, OpenLoop, load_words
from myserve_ui.bench.summary import Percentiles
from myserve_ui.core.number_words import decimal
from myserve_ui.ui.benchmark.words import (
    circumstances,
    legend_words,
    load_level,
    models_of,
    name_words,
    row_words,
    short_load,
)
from myserve_ui.ui.shared.axes import Axis, fitting_axis, linear_axis, log_axis
from myserve_ui.ui.shared.plots import NUM_HUES, Mark, Plot, Series, draw

LEVEL_NAMES = {
    "concurrency": "requests at once",
    "rate": "requests per second",
    "ramp": "at the most, at once or per second",
}
"""Kind of load -> what its axis is called."""
MOST_STEPS = 120
"""Of a distribution; more than a reader can tell apart."""
Value = Callable[[Row], float | None]


def load_plots(run: BenchmarkRun) -> list[Markup]:
    """For each kind of load: throughput, latency and goodput over it."""
    kinds = dict.fromkeys(kind_of(row.load) for row in run.rows)
    return [plot for kind in kinds for plot in _plots_of_kind(run, kind)]


def kind_of(load: Load) -> str:
    """What a load is a level of: concurrency, rate, or a ramp of either."""
    return "concurrency" if isinstance(load, ClosedLoop) else "rate" if isinstance(load, OpenLoop) else "ramp"


def _plots_of_kind(run: BenchmarkRun, kind: str) -> list[Markup]:
    rows = [row for row in run.rows if kind_of(row.load) == kind and row.completed]
    if not rows:
        return []
    caption = circumstances(run, rows)
    x = _level_axis(rows, kind)
    throughput = _over_load(run, rows, [("", lambda row: row.output_throughput, "tok/s")])
    latency = _over_load(
        run,
        rows,
        [
            ("p50", lambda row: row.e2e_ms.p50 if row.e2e_ms else None, "ms"),
            ("p95", lambda row: row.e2e_ms.p95 if row.e2e_ms else None, "ms"),
        ],
    )
    goodput = _over_load(run, rows, [("", lambda row: row.goodput, "good/s")])
    good = f"{caption} · {limit_words(run.settings.limits)}"
    return [
        draw(Plot(f"Throughput and {kind}", x, _fit("tokens per second", throughput), throughput, caption)),
        draw(Plot(f"Latency and {kind}", x, _fit("end to end, ms", latency), latency, caption)),
        draw(Plot(f"Goodput and {kind}", x, _goodput_axis(goodput), goodput, good)),
    ]


def percentile_plots(run: BenchmarkRun) -> list[Markup]:
    """TTFT and TPOT of every row: a column from the median to the 99th percentile."""
    found = {
        "Time to first token": [(row, row.ttft_ms) for row in run.rows if row.ttft_ms],
        "Time per output token": [(row, row.tpot_ms) for row in run.rows if row.tpot_ms],
    }
    return [_percentiles(run, name, rows) for name, rows in found.items() if rows]


def distribution_plots(run: BenchmarkRun) -> list[Markup]:
    """Which share of the answers was complete after how long: a plot for each kind of load, a curve for each row.

    Every curve has a colour of its own, unlike other plots, where colours are models: loads cross each other here.
    """
    kinds = dict.fromkeys(kind_of(row.load) for row in run.rows)
    plots: list[Markup] = []
    for kind in kinds:
        rows = {index: row for index, row in enumerate(run.rows) if kind_of(row.load) == kind}
        found = [curve for index, row in rows.items() if (curve := _distribution(run, index, row))]
        curves = tuple(replace(curve, hue=n % NUM_HUES, dash=n // NUM_HUES) for n, curve in enumerate(found))
        if curves:
            x = fitting_axis("end to end, ms", [mark.x for curve in curves for mark in curve.marks])
            y = Axis("share of answers", 0.0, 1.0, tuple((step / 4, f"{25 * step} %") for step in range(5)))
            caption = circumstances(run, list(rows.values()))
            plots.append(draw(Plot("Distribution of latency", x, y, curves, caption)))
    return plots


def limit_words(limits: Limits) -> str:
    """What a request must meet to be good."""
    bounds = {"TTFT": limits.ttft, "TPOT": limits.tpot, "E2E": limits.e2e}
    words = [f"{name} ≤ {1000 * bound:g} ms" for name, bound in bounds.items() if bound]
    return f"good: {', '.join(words)}" if words else "no limits, every completed request is good"


def hue_of(run: BenchmarkRun, row: Row) -> int:
    """The colour of a row's model, the same in every plot."""
    return models_of(run.rows).index(name_words(row))


def _over_load(run: BenchmarkRun, rows: Sequence[Row], lines: Sequence[tuple[str, Value, str]]) -> tuple[Series, ...]:
    """A line for each model and each of `lines` (name, value, unit)."""
    series = []
    for model in models_of(rows):
        own = sorted((row for row in rows if name_words(row) == model), key=lambda row: load_level(row.load))
        for dash, (name, value, unit) in enumerate(lines):
            marks = tuple(
                Mark(load_level(row.load), found, _title(row, f"{name} {decimal(found)} {unit}".strip()))
                for row in own
                if (found := value(row)) is not None
            )
            name = f"{legend_words(run.rows, own[0])} {name}".strip()
            series.append(Series(name, marks, hue_of(run, own[0]), dash))
    return tuple(series)


def _title(row: Row, words: str) -> str:
    return f"{row_words(row)}: {words} (n = {row.completed})"


def _level_axis(rows: Sequence[Row], kind: str) -> Axis:
    """Over powers of two, as loads are chosen; the loads themselves are its ticks."""
    levels = sorted({load_level(row.load) for row in rows})
    return log_axis(LEVEL_NAMES[kind], levels, marks=_apart(levels))


def _apart(levels: Sequence[float]) -> list[float]:
    """Those that can be written side by side, the largest for certain."""
    kept: list[float] = []
    span = math.log(max(levels) / min(levels)) or 1.0
    for level in reversed(levels):
        if not kept or math.log(kept[-1] / level) > span / 9:
            kept.append(level)
    return kept[::-1]


def _fit(label: str, series: Sequence[Series]) -> Axis:
    return fitting_axis(label, [mark.y for line in series for mark in line.marks])


def _goodput_axis(series: Sequence[Series]) -> Axis:
    """From zero: that nothing was good is a result."""
    return linear_axis("good requests per second", [mark.y for line in series for mark in line.marks])


def _percentiles(run: BenchmarkRun, name: str, rows: Sequence[tuple[Row, Percentiles]]) -> Markup:
    """Columns side by side for the models of a load."""
    loads, models = list(dict.fromkeys(row.load for row in run.rows)), models_of(run.rows)
    series = []
    for row, found in rows:
        x = loads.index(row.load) + (hue_of(run, row) + 1) / (len(models) + 1)
        heights = {"p50": found.p50, "p90": found.p90, "p95": found.p95, "p99": found.p99}
        marks = tuple(Mark(x, y, _title(row, f"{percentile} {decimal(y)} ms")) for percentile, y in heights.items())
        series.append(Series(legend_words(run.rows, row), marks, hue_of(run, row)))
    ticks = tuple((index + 0.5, short_load(load)) for index, load in enumerate(loads))
    x_axis = Axis("load; a column from p50 over p90 and p95 to p99", 0.0, float(len(loads)), ticks)
    y_axis = fitting_axis(f"{name.lower()}, ms", [mark.y for line in series for mark in line.marks])
    return draw(Plot(f"{name}, percentiles", x_axis, y_axis, tuple(series), circumstances(run)))


def _distribution(run: BenchmarkRun, index: int, row: Row) -> Series | None:
    """The empirical distribution of the end-to-end times of row number `index`, as steps."""
    times = sorted(
        1000 * (request.end - request.sent)
        for request in run.requests
        if request.row == index and request.outcome is Outcome.COMPLETED
    )
    if not times:
        return None
    every = math.ceil(len(times) / MOST_STEPS)
    marks = [Mark(times[0], 0.0, "")]
    for rank in range(every, len(times) + every, every):
        rank = min(rank, len(times))
        marks += [Mark(times[rank - 1], marks[-1].y, ""), Mark(times[rank - 1], rank / len(times), "")]
    name = f"{legend_words(run.rows, row)}, {load_words(row.load)}"
    return Series(name, tuple(marks), has_dots=False)
