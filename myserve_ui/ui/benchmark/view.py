"""A benchmark's document as HTML: a headline, what went wrong, every plot, and what it was measured on."""

from __future__ import annotations

from html import escape

from myserve_ui.bench.documents.row_words import cached_words, salt_words, tpot_words
from myserve_ui.ui.benchmark.comparison_view import differences_view
from myserve_ui.ui.benchmark.plots import distribution_plots, limit_words, load_plots, percentile_plots
from myserve_ui.ui.benchmark.roofline_plot import roofline_plot, words_above_roof
from myserve_ui.ui.benchmark.tables import decimal, failures_view, share
from myserve_ui.ui.benchmark.timeline import timelines
from myserve_ui.ui.benchmark.words import Document, Row, circumstances, environment, model_words, models_of, row_words
from myserve_ui.ui.shared.number_table import facts_list

NO_ROOFLINE = "No roofline: what a step of these models moves is not known here (no weights, or another server)."

OVER_THE_ROOF = (
    "More than 100 % of the roofline: the machine was busy when its speed was measured. Press Measure under Roofline "
    "while it is quiet, then run again."
)


def summary_view(document: Document) -> str:
    """The result in a sentence for each model, and every failure."""
    groups = [[row for row in document["rows"] if model_words(row) == model] for model in models_of(document)]
    sentences = list(map(_sentence, groups))
    words = " ".join(sentences) or "Nothing was measured."
    stopped = " Stopped early: what was measured until then." if document.get("stopped") else ""
    return (
        f'<p class="lead">{escape(words + stopped)}</p>{failures_view(document)}'
        f'<p class="fine">{escape(_what_was_asked(document))}</p>'
        f"{_few_tpots(document)}{_over_the_roof(document)}"
    )


def _what_was_asked(document: Document) -> str:
    words = (circumstances(document), limit_words(document), salt_words(document["settings"]))
    return " · ".join(filter(None, words))


def _few_tpots(document: Document) -> str:
    """Which rows have a TPOT of fewer answers than were completed; empty if none has."""
    words = [f"{row_words(row)}: {few}." for row in document["rows"] if (few := tpot_words(row))]
    return f'<p class="fine">{escape(" ".join(words))}</p>' if words else ""


def _over_the_roof(document: Document) -> str:
    """What a share of more than the whole means; empty if there is none."""
    is_over = any((row.get("roofline_share") or 0.0) > 1.0 for row in document["rows"])
    return f'<p class="fine">{OVER_THE_ROOF}</p>' if is_over else ""


def plots_view(document: Document) -> str:
    """What the models differ by, every plot, then the machine and the versions."""
    small = "".join([*load_plots(document), *percentile_plots(document), *distribution_plots(document)])
    if not small:
        return ""
    roof = roofline_plot(document) or f'<p class="fine">{NO_ROOFLINE}</p>'
    roof = "".join([roof, *(f'<p class="fine">{escape(words)}</p>' for words in words_above_roof(document))])
    return (
        f'<section class="results" aria-label="Plots">{differences_view(document)}'
        f'<div class="plots">{small}<div class="wide">{roof}</div></div>'
        f"{timelines(document)}{facts_list(environment(document))}</section>"
    )


def _sentence(rows: list[Row]) -> str:
    """The row with the highest throughput, told beside the first."""
    done = [row for row in rows if row["completed"]]
    if not done:
        return f"{model_words(rows[0])}: no request was completed."
    best = max(done, key=lambda row: row["output_throughput"])
    words = f"{row_words(best)}: {decimal(best['output_throughput'])} tokens/s"
    if best.get("ttft_ms"):
        words += f", first token after {decimal(best['ttft_ms']['p50'])} ms (median)"
    if best.get("tpot_ms"):
        words += f", {decimal(best['tpot_ms']['p50'])} ms for each further one"
    if best.get("cached_share") is not None:
        words += f", {cached_words(best['cached_share'])}"
    if best.get("roofline_share") is not None:
        words += f", {share(best['roofline_share'])} of the roofline"
    return f"{words}."
