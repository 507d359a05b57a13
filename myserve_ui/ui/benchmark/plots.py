"""Plots of a benchmark: throughput, latency and goodput over the load, percentiles, and the latency distribution."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from myserve_ui.ui.benchmark.tables import decimal
from myserve_ui.ui.benchmark.words import (
    Document,
    Row,
    circumstances,
    legend_words,
    load_level,
    load_words,
    loads_of,
    model_words,
    models_of,
)
from myserve_ui.ui.shared.axes import Axis, fitting_axis, linear_axis, log_axis
from myserve_ui.ui.shared.plots import NUM_HUES, Mark, Plot, Series, draw

LEVEL_NAMES = {
    "closed": "requests at once",
    "open": "requests per second",
    "ramp": "at the most, at once or per second",
}
PERCENTILES = ("p50", "p90", "p95", "p99")
MOST_STEPS = 120
"""Of a distribution; more than a reader can tell apart."""
Value = Callable[[Row], float | None]


def load_plots(document: Document) -> list[str]:
    """For each kind of load: throughput, latency and goodput over it."""
    kinds = dict.fromkeys(row["load"]["kind"] for row in document["rows"])
    return [plot for kind in kinds for plot in _plots_of_kind(document, kind)]


def _plots_of_kind(document: Document, kind: str) -> list[str]:
    rows = [row for row in document["rows"] if row["load"]["kind"] == kind and row["completed"]]
    if not rows:
        return []
    caption = circumstances(document, rows)
    x = _level_axis(rows, kind)
    over = {"closed": "concurrency", "open": "rate", "ramp": "ramp"}[kind]
    throughput = _over_load(document, rows, [("", lambda row: row["output_throughput"], "tok/s")])
    latency = _over_load(document, rows, [(name, _latency("e2e_ms", name), "ms") for name in ("p50", "p95")])
    goodput = _over_load(document, rows, [("", lambda row: row["goodput"], "good/s")])
    return [
        draw(Plot(f"Throughput and {over}", x, _fit("tokens per second", throughput), throughput, caption)),
        draw(Plot(f"Latency and {over}", x, _fit("end to end, ms", latency), latency, caption)),
        draw(Plot(f"Goodput and {over}", x, _goodput_axis(goodput), goodput, f"{caption} · {limit_words(document)}")),
    ]


def percentile_plots(document: Document) -> list[str]:
    """TTFT and TPOT of every row: a column from the median to the 99th percentile."""
    names = {"ttft_ms": "Time to first token", "tpot_ms": "Time per output token"}
    return [plot for key, name in names.items() if (plot := _percentiles(document, key, name))]


def distribution_plots(document: Document) -> list[str]:
    """Which share of the answers was complete after how long: a plot for each kind of load, a curve for each row.

    Every curve has a colour of its own, unlike other plots, where colours are models: loads cross each other here.
    """
    kinds = dict.fromkeys(row["load"]["kind"] for row in document["rows"])
    plots: list[str] = []
    for kind in kinds:
        rows = {index: row for index, row in enumerate(document["rows"]) if row["load"]["kind"] == kind}
        found = [curve for index, row in rows.items() if (curve := _distribution(document, index, row))]
        curves = tuple(replace(curve, hue=n % NUM_HUES, dash=n // NUM_HUES) for n, curve in enumerate(found))
        if curves:
            x = fitting_axis("end to end, ms", [mark.x for curve in curves for mark in curve.marks])
            y = Axis("share of answers", 0.0, 1.0, tuple((step / 4, f"{25 * step} %") for step in range(5)))
            caption = circumstances(document, list(rows.values()))
            plots.append(draw(Plot("Distribution of latency", x, y, curves, caption)))
    return plots


def limit_words(document: Document) -> str:
    """What a request must meet to be good."""
    limits = document["settings"].get("limits") or {}
    words = [f"{name.upper()} ≤ {1000 * limits[name]:g} ms" for name in ("ttft", "tpot", "e2e") if limits.get(name)]
    return f"good: {', '.join(words)}" if words else "no limits, every completed request is good"


def hue_of(document: Document, row: Row) -> int:
    """The colour of a row's model, the same in every plot."""
    return models_of(document).index(model_words(row))


def _over_load(document: Document, rows: Sequence[Row], lines: Sequence[tuple[str, Value, str]]) -> tuple[Series, ...]:
    """A line for each model and each of `lines` (name, value, unit)."""
    series = []
    for model in dict.fromkeys(map(model_words, rows)):
        own = sorted((row for row in rows if model_words(row) == model), key=lambda row: load_level(row["load"]))
        for dash, (name, value, unit) in enumerate(lines):
            marks = tuple(
                Mark(load_level(row["load"]), found, _title(row, f"{name} {decimal(found)} {unit}".strip()))
                for row in own
                if (found := value(row)) is not None
            )
            series.append(
                Series(f"{legend_words(document, own[0])} {name}".strip(), marks, hue_of(document, own[0]), dash)
            )
    return tuple(series)


def _title(row: Row, words: str) -> str:
    return f"{model_words(row)}, {load_words(row['load'])}: {words} (n = {row['completed']})"


def _latency(key: str, percentile: str) -> Value:
    return lambda row: row[key][percentile] if row.get(key) else None


def _level_axis(rows: Sequence[Row], kind: str) -> Axis:
    """Over powers of two, as loads are chosen; the loads themselves are its ticks."""
    levels = sorted({load_level(row["load"]) for row in rows})
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


def _percentiles(document: Document, key: str, name: str) -> str | None:
    """Columns side by side for the models of a load."""
    loads, models = loads_of(document), models_of(document)
    places = {load_words(load): index for index, load in enumerate(loads)}
    rows = [row for row in document["rows"] if row.get(key)]
    if not rows:
        return None
    series = []
    for row in rows:
        offset = (hue_of(document, row) + 1) / (len(models) + 1)
        x = places[load_words(row["load"])] + offset
        numbers: Mapping[str, Any] = row[key]
        marks = tuple(
            Mark(x, numbers[percentile], _title(row, f"{percentile} {decimal(numbers[percentile])} ms"))
            for percentile in PERCENTILES
        )
        series.append(Series(legend_words(document, row), marks, hue_of(document, row)))
    ticks = tuple((index + 0.5, short_load(load)) for index, load in enumerate(loads))
    x_axis = Axis("load; a column from p50 over p90 and p95 to p99", 0.0, float(len(loads)), ticks)
    y_axis = fitting_axis(f"{name.lower()}, ms", [mark.y for line in series for mark in line.marks])
    return draw(Plot(f"{name}, percentiles", x_axis, y_axis, tuple(series), circumstances(document)))


def short_load(load: Mapping[str, Any]) -> str:
    """A load where there is little room: ×4, 2/s, ramp."""
    if load["kind"] == "ramp":
        return "ramp"
    return f"×{load['concurrency']}" if load["kind"] == "closed" else f"{load['rate']:g}/s"


def _distribution(document: Document, index: int, row: Row) -> Series | None:
    """The empirical distribution of the end-to-end times of row number `index`, as steps."""
    times = sorted(
        1000 * (record["end"] - record["sent"])
        for record in document["requests"]
        if record["row"] == index and record["outcome"] == "completed"
    )
    if not times:
        return None
    every = math.ceil(len(times) / MOST_STEPS)
    marks = [Mark(times[0], 0.0, "")]
    for rank in range(every, len(times) + every, every):
        rank = min(rank, len(times))
        marks += [Mark(times[rank - 1], marks[-1].y, ""), Mark(times[rank - 1], rank / len(times), "")]
    name = f"{legend_words(document, row)}, {load_words(row['load'])}"
    return Series(name, tuple(marks), has_dots=False)
