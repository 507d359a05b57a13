"""The roofline of a benchmark: what the machine could do, and where prefill and decode of every row came to lie."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from markupsafe import Markup

from myserve_ui.bench.documents.rows import Row
from myserve_ui.bench.documents.run import BenchmarkRun
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


@dataclass(frozen=True, slots=True)
class Work:
    """What a model's step costs, and what the machine can do."""

    bytes_per_s: float
    flops_per_s: float
    bytes_per_step: float
    kv_bytes_per_token: float
    num_parameters: float

    def intensity(self, tokens: float, *, cached: float) -> float:
        """Operations for each byte, of a step over `tokens` that reads or writes `cached` tokens of the cache."""
        return 2 * self.num_parameters * tokens / (self.bytes_per_step + cached * self.kv_bytes_per_token)

    def share_of_roof(self, point: Mark) -> float:
        """How much of what the machine could do at most with so many operations per byte."""
        return point.y / min(self.flops_per_s, point.x * self.bytes_per_s)

    def rate(self, tokens_per_second: float) -> float:
        """Operations a second."""
        return 2 * self.num_parameters * tokens_per_second


def roofline_plot(run: BenchmarkRun) -> Markup | None:
    """HTML of the log-log plot; None if the machine was not measured or the models' costs are not known."""
    works = works_of(run)
    if not works:
        return None
    series = [line for row in run.rows if row.model in works for line in _points(run, row, works[row.model])]
    machine = next(iter(works.values()))
    ridge = machine.flops_per_s / machine.bytes_per_s
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
            notes=((ridge, _crossings(run, works)),),
        )
    )


def works_of(run: BenchmarkRun) -> dict[str, Work]:
    """Costs by model, of those whose machine has a matrix rate."""
    return {
        model: Work(
            bytes_per_s=roofline.bandwidth_bytes_per_s,
            flops_per_s=roofline.flops_per_s,
            bytes_per_step=roofline.bytes_per_step,
            kv_bytes_per_token=roofline.kv_bytes_per_token,
            num_parameters=roofline.num_parameters,
        )
        for model, roofline in run.rooflines.items()
        if roofline.flops_per_s is not None
    }


def _roof(machine: Work, low: float, high: float) -> Series:
    ridge = machine.flops_per_s / machine.bytes_per_s
    corners = [low, *([ridge] if low < ridge < high else []), high]
    marks = tuple(Mark(corner, min(machine.flops_per_s, corner * machine.bytes_per_s), "") for corner in corners)
    name = f"roof: {decimal(machine.bytes_per_s / 1e9)} GB/s, {decimal(machine.flops_per_s / 1e9)} GFLOP/s"
    return Series(name, marks, ROOF_HUE, has_dots=False)


def _points(run: BenchmarkRun, row: Row, work: Work) -> list[Series]:
    """Decode as a dot, prefill as a square."""
    hue, name = hue_of(run, row), legend_words(run.rows, row)
    series = []
    if (decode := decode_point(row, work)) is not None:
        series.append(Series(f"{name}, decode", (decode,), hue, is_joined=False))
    if (prefill := prefill_point(row, work)) is not None:
        series.append(Series(f"{name}, prefill", (prefill,), hue, is_joined=False, is_square=True))
    return series


def decode_point(row: Row, work: Work) -> Mark | None:
    """Where decoding of a row lies; None if no answer had two tokens."""
    if not row.completed or not row.tpot_ms or not row.output_throughput:
        return None
    batch = max(1.0, row.decoding or 1.0)
    context = (row.prompt_tokens + row.output_tokens / 2) / row.completed
    intensity, rate = work.intensity(batch, cached=batch * context), work.rate(row.output_throughput)
    words = f"decode at {decimal(row.output_throughput)} tok/s, batch {batch:.1f}"
    return Mark(intensity, rate, _title(row, words, work, intensity, rate))


def prefill_point(row: Row, work: Work) -> Mark | None:
    """Where reading a row's prompts lies, without what was cached; None if nothing was read."""
    if not row.completed or not row.ttft_ms or not row.prompt_tokens:
        return None
    prompt = row.prompt_tokens / row.completed
    tokens = prompt * (1.0 - (row.cached_share or 0.0))
    if not tokens or not row.ttft_ms.p50:
        return None
    rate = work.rate(tokens / (row.ttft_ms.p50 / 1000))
    intensity = work.intensity(tokens, cached=prompt)
    words = f"prefill of {tokens:.0f} tokens in {decimal(row.ttft_ms.p50)} ms"
    if row.cached_share:
        words += f", {prompt - tokens:.0f} more were cached"
    return Mark(intensity, rate, _title(row, words, work, intensity, rate))


def _title(row: Row, words: str, work: Work, intensity: float, rate: float) -> str:
    roof = min(work.flops_per_s, intensity * work.bytes_per_s)
    return (
        f"{row_words(row)}: {words}; {decimal(rate / 1e9)} GFLOP/s, "
        f"{rate / roof:.0%} of the roof at {intensity:.2g} operations per byte (n = {row.completed})"
    )


def words_above_roof(run: BenchmarkRun) -> list[str]:
    """Why a point lies higher than the machine can reach: a sentence for each row that has one."""
    found, works = [], works_of(run)
    for row in run.rows:
        if (work := works.get(row.model)) is not None:
            points = {"prefill": prefill_point(row, work), "decode": decode_point(row, work)}
            above = {name: point for name, point in points.items() if point and work.share_of_roof(point) > 1.0}
            found += [_why_above(row, name, work.share_of_roof(point)) for name, point in above.items()]
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


def _crossings(run: BenchmarkRun, works: Mapping[str, Work]) -> str:
    """From which batch on arithmetic is the limit, for each model."""
    batches = {model: run.rooflines[model].crossing_batch for model in works}
    words = [f"batch {batch}" if batch else "no batch" for batch in batches.values()]
    if len(words) == 1:
        return f"crossover: {words[0]}"
    precisions = {row.model: row.precision or row.model for row in run.rows}
    return "crossover: " + ", ".join(
        f"{precisions.get(model, model)} {word}" for model, word in zip(batches, words, strict=True)
    )
