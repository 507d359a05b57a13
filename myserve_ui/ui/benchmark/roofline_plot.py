"""The roofline of a benchmark: what the machine could do, and where prefill and decode of every row came to lie."""

from __future__ import annotations

import math
from collections.abc import Iterable

from markupsafe import Markup

from myserve_ui.bench.documents.rows import Row
from myserve_ui.bench.documents.run import BenchmarkRun
from myserve_ui.bench.roofline.roofline import MachineSpeed, ModelRoofline
from myserve_ui.core.number_words import decimal, percent
from myserve_ui.ui.benchmark.plots import hue_of
from myserve_ui.ui.benchmark.words import circumstances, legend_words, row_words
from myserve_ui.ui.shared.axes import log_axis
from myserve_ui.ui.shared.plots import Mark, Plot, Series, draw

ROOF_HUE = 5
EXPLAINED = (
    "decode: all sequences together, as many as decoded at a time on average; prefill: what was not cached, by the "
    "median time to the first token, waiting included"
)
TOO_SLOW = "the machine was measured as slower than it is: press Measure under Roofline while it is quiet"


def roofline_plot(run: BenchmarkRun) -> Markup | None:
    """HTML of the log-log plot; None if the machine was not measured or the models' costs are not known."""
    rooflines = known_rooflines(run)
    if not rooflines:
        return None
    series = [line for row in run.rows if row.model in rooflines for line in _points(run, row, rooflines[row.model])]
    machine = next(iter(rooflines.values())).machine
    ridge = machine.ridge
    x = log_axis(
        "operations per byte moved", [ridge / 4, ridge * 4, *(mark.x for line in series for mark in line.marks)]
    )
    roof = _roof(machine, x.low, x.high)
    y = log_axis("operations per second", [mark.y for line in (*series, roof) for mark in line.marks])
    return draw(
        Plot(
            "Roofline",
            x,
            y,
            (roof, *series),
            f"{circumstances(run)} · {EXPLAINED}",
            height=300,
            notes=((ridge, _crossings(run, rooflines)),),
        )
    )


def known_rooflines(run: BenchmarkRun) -> dict[str, ModelRoofline]:
    """By model, of those whose machine has a matrix rate; a file may say that it has none of either."""
    found = {model: ModelRoofline.of(document) for model, document in run.rooflines.items()}
    return {model: roofline for model, roofline in found.items() if 0 < roofline.machine.ridge < math.inf}


def _roof(machine: MachineSpeed, low: float, high: float) -> Series:
    corners = [low, *([machine.ridge] if low < machine.ridge < high else []), high]
    marks = tuple(Mark(corner, machine.roof(corner), "") for corner in corners)
    name = f"roof: {decimal(machine.bytes_per_s / 1e9)} GB/s, {decimal(machine.flops_per_s / 1e9)} GFLOP/s"
    return Series(name, marks, ROOF_HUE, has_dots=False)


def _points(run: BenchmarkRun, row: Row, roofline: ModelRoofline) -> list[Series]:
    """Decode as a dot, prefill as a square."""
    hue, name = hue_of(run, row), legend_words(run.rows, row)
    series = []
    if (decode := decode_point(row, roofline)) is not None:
        series.append(Series(f"{name}, decode", (decode,), hue, is_joined=False))
    if (prefill := prefill_point(row, roofline)) is not None:
        series.append(Series(f"{name}, prefill", (prefill,), hue, is_joined=False, is_square=True))
    return series


def decode_point(row: Row, roofline: ModelRoofline) -> Mark | None:
    """Where decoding of a row lies; None if no answer had two tokens."""
    if not row.completed or not row.tpot_ms or not row.output_throughput:
        return None
    batch = max(1.0, row.decoding or 1.0)
    context = (row.prompt_tokens + row.output_tokens / 2) / row.completed
    cost = roofline.cost
    intensity, rate = cost.intensity(batch, cached=batch * context), cost.operations(row.output_throughput)
    words = f"decode at {decimal(row.output_throughput)} tok/s, batch {batch:.1f}"
    return Mark(intensity, rate, _title(row, words, rate / roofline.machine.roof(intensity), intensity, rate))


def prefill_point(row: Row, roofline: ModelRoofline) -> Mark | None:
    """Where reading a row's prompts lies, without what was cached; None if nothing was read."""
    if not row.completed or not row.ttft_ms or not row.prompt_tokens:
        return None
    prompt = row.prompt_tokens / row.completed
    tokens = prompt * (1.0 - (row.cached_share or 0.0))
    if not tokens or not row.ttft_ms.p50:
        return None
    rate = roofline.cost.operations(tokens / (row.ttft_ms.p50 / 1000))
    intensity = roofline.cost.intensity(tokens, cached=prompt)
    words = f"prefill of {tokens:.0f} tokens in {decimal(row.ttft_ms.p50)} ms"
    if row.cached_share:
        words += f", {prompt - tokens:.0f} more were cached"
    return Mark(intensity, rate, _title(row, words, rate / roofline.machine.roof(intensity), intensity, rate))


def _title(row: Row, words: str, share: float, intensity: float, rate: float) -> str:
    return (
        f"{row_words(row)}: {words}; {decimal(rate / 1e9)} GFLOP/s, "
        f"{share:.0%} of the roof at {intensity:.2g} operations per byte (n = {row.completed})"
    )


def words_above_roof(run: BenchmarkRun) -> list[str]:
    """Why a point lies higher than the machine can reach: a sentence for each row that has one."""
    found, rooflines = [], known_rooflines(run)
    for row in run.rows:
        if (roofline := rooflines.get(row.model)) is not None:
            points = {"prefill": prefill_point(row, roofline), "decode": decode_point(row, roofline)}
            shares = {name: point.y / roofline.machine.roof(point.x) for name, point in points.items() if point}
            found += [_why_above(row, name, share) for name, share in shares.items() if share > 1.0]
    return found


def _why_above(row: Row, name: str, share: float) -> str:
    """Prompt tokens that were not computed take no time; else the roof is too low."""
    words = f"{row_words(row)}: {name} at {percent(share)} of the roof"
    if name == "decode":
        return f"{words}: {TOO_SLOW}."
    if row.cached_share is None:
        return f"{words}: the server does not tell how many prompt tokens were cached and took no time; or {TOO_SLOW}."
    told = f"{percent(row.cached_share)} of its prompt tokens were cached and are left out, so "
    return f"{words}: {told if row.cached_share else ''}{TOO_SLOW}."


def _crossings(run: BenchmarkRun, models: Iterable[str]) -> str:
    """From which batch on arithmetic is the limit, for each model."""
    batches = {model: run.rooflines[model].crossing_batch for model in models}
    words = [f"batch {batch}" if batch else "no batch" for batch in batches.values()]
    if len(words) == 1:
        return f"crossover: {words[0]}"
    precisions = {row.model: row.precision or row.model for row in run.rows}
    is_told_apart = len(set(precisions.values())) == len(precisions)
    return "crossover: " + ", ".join(
        f"{precisions.get(model, model) if is_told_apart else model} {word}"
        for model, word in zip(batches, words, strict=True)
    )
