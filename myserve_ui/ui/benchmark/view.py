"""A benchmark's run as HTML: a headline, what went wrong, every plot, and what it was measured on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from markupsafe import Markup

from myserve_ui.bench.documents.row_words import cached_words, salt_words, tpot_words
from myserve_ui.bench.documents.rows import Row
from myserve_ui.bench.documents.run import BenchmarkRun
from myserve_ui.core.number_words import decimal, percent
from myserve_ui.ui.benchmark.comparison_view import differences_view
from myserve_ui.ui.benchmark.plots import distribution_plots, limit_words, load_plots, percentile_plots
from myserve_ui.ui.benchmark.roofline_plot import roofline_plot, words_above_roof
from myserve_ui.ui.benchmark.tables import failures_view
from myserve_ui.ui.benchmark.timeline import timelines
from myserve_ui.ui.benchmark.words import circumstances, environment, models_of, name_words, row_words
from myserve_ui.ui.shared.templates import render

NO_ROOFLINE = "No roofline: what a step of these models moves is not known here (no weights, or another server)."

OVER_THE_ROOF = (
    "More than 100 % of the roofline: the machine was busy when its speed was measured. Press Measure under Roofline "
    "while it is quiet, then run again."
)


def summary_view(run: BenchmarkRun) -> Markup:
    """The result in a sentence for each model, and every failure."""
    groups = [[row for row in run.rows if name_words(row) == model] for model in models_of(run.rows)]
    words = " ".join(map(_sentence, groups)) or "Nothing was measured."
    stopped = " Stopped early: what was measured until then." if run.stopped else ""
    asked = " · ".join(filter(None, (circumstances(run), limit_words(run.settings.limits), salt_words(run.settings))))
    return render(
        "benchmark/summary",
        words=words + stopped,
        failures=failures_view(run.rows),
        fine_print=[asked, *_few_tpots(run.rows), *_over_the_roof(run.rows)],
    )


def _few_tpots(rows: Sequence[Row]) -> Iterator[str]:
    """Which rows have a TPOT of fewer answers than were completed."""
    if words := [f"{row_words(row)}: {few}." for row in rows if (few := tpot_words(row))]:
        yield " ".join(words)


def _over_the_roof(rows: Sequence[Row]) -> Iterator[str]:
    """What a share of more than the whole means."""
    if any((row.roofline_share or 0) > 1 for row in rows):
        yield OVER_THE_ROOF


def plots_view(run: BenchmarkRun) -> Markup:
    """What the models differ by, every plot, then the machine and the versions."""
    plots = [*load_plots(run), *percentile_plots(run), *distribution_plots(run)]
    if not plots:
        return Markup()
    roofline = roofline_plot(run)
    return render(
        "benchmark/plots",
        differences=differences_view(run.differences),
        plots=plots,
        roofline=roofline or "",
        about_the_roof=[*([] if roofline else [NO_ROOFLINE]), *words_above_roof(run)],
        timelines=timelines(run),
        environment=environment(run),
    )


def _sentence(rows: Sequence[Row]) -> str:
    """The row with the highest throughput, told beside the first."""
    done = [row for row in rows if row.completed]
    if not done:
        return f"{name_words(rows[0])}: no request was completed."
    best = max(done, key=lambda row: row.output_throughput)
    words = f"{row_words(best)}: {decimal(best.output_throughput)} tokens/s"
    if best.ttft_ms:
        words += f", first token after {decimal(best.ttft_ms.p50)} ms (median)"
    if best.tpot_ms:
        words += f", {decimal(best.tpot_ms.p50)} ms for each further one"
    if best.cached_share is not None:
        words += f", {cached_words(best.cached_share)}"
    if best.roofline_share is not None:
        words += f", {percent(best.roofline_share)} of the roofline"
    return f"{words}."
