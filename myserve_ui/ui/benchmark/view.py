"""A benchmark's run as HTML: a headline, what went wrong, every plot, and what it was measured on."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

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
from myserve_ui.ui.shared.number_table import facts_list

NO_ROOFLINE = "No roofline: what a step of these models moves is not known here (no weights, or another server)."

OVER_THE_ROOF = (
    "More than 100 % of the roofline: the machine was busy when its speed was measured. Press Measure under Roofline "
    "while it is quiet, then run again."
)


def summary_view(run: BenchmarkRun) -> str:
    """The result in a sentence for each model, and every failure."""
    groups = [[row for row in run.rows if name_words(row) == model] for model in models_of(run.rows)]
    words = " ".join(map(_sentence, groups)) or "Nothing was measured."
    stopped = " Stopped early: what was measured until then." if run.stopped else ""
    asked = " · ".join(filter(None, (circumstances(run), limit_words(run.settings.limits), salt_words(run.settings))))
    return (
        f'<p class="lead">{escape(words + stopped)}</p>{failures_view(run.rows)}'
        f'<p class="fine">{escape(asked)}</p>'
        f"{_few_tpots(run.rows)}{_over_the_roof(run.rows)}"
    )


def _few_tpots(rows: Sequence[Row]) -> str:
    """Which rows have a TPOT of fewer answers than were completed; empty if none has."""
    words = [f"{row_words(row)}: {few}." for row in rows if (few := tpot_words(row))]
    return f'<p class="fine">{escape(" ".join(words))}</p>' if words else ""


def _over_the_roof(rows: Sequence[Row]) -> str:
    """What a share of more than the whole means; empty if there is none."""
    return f'<p class="fine">{OVER_THE_ROOF}</p>' if any((row.roofline_share or 0) > 1 for row in rows) else ""


def plots_view(run: BenchmarkRun) -> str:
    """What the models differ by, every plot, then the machine and the versions."""
    small = "".join([*load_plots(run), *percentile_plots(run), *distribution_plots(run)])
    if not small:
        return ""
    roof = roofline_plot(run) or f'<p class="fine">{NO_ROOFLINE}</p>'
    roof = "".join([roof, *(f'<p class="fine">{escape(words)}</p>' for words in words_above_roof(run))])
    return (
        f'<section class="results" aria-label="Plots">{differences_view(run.differences)}'
        f'<div class="plots">{small}<div class="wide">{roof}</div></div>'
        f"{timelines(run)}{facts_list(environment(run))}</section>"
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
