"""Differences of two runs, or of two models of one run, as a table of HTML: b against a, with 95 % intervals."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from myserve_ui.bench.documents.differences import LatencyDifference, RowDifference, RunComparison
from myserve_ui.bench.loads import load_words
from myserve_ui.core.number_words import UNKNOWN, signed
from myserve_ui.ui.benchmark.words import legend_words
from myserve_ui.ui.shared.number_table import number_table

HEADINGS = ("load", "b against a", "tok/s", "TTFT, ms", "TPOT, ms", "E2E, ms", "n")
PAIRED = "Paired: both sides got the same requests, and each is compared with itself."
UNPAIRED = "Not paired: the runs asked different things, so their means are compared (Welch)."
HOW = (
    "Mean difference b − a in milliseconds with its 95 % interval; bold where the interval leaves out zero. "
    "tok/s: b over a."
)


def comparison_view(comparison: RunComparison) -> str:
    """HTML of two runs side by side."""
    how = PAIRED if comparison.is_paired else UNPAIRED
    left_out = len(comparison.unmatched.a) + len(comparison.unmatched.b)
    words = f" {left_out} rows have no counterpart." if left_out else ""
    return (
        f'<section class="report" aria-label="Comparison"><p class="lead">a = {escape(comparison.a)}, '
        f"b = {escape(comparison.b)}</p>{number_table(HEADINGS, map(_line, comparison.rows))}"
        f'{_cautions(comparison.rows)}<p class="fine">{how} {HOW}{escape(words)}</p></section>'
    )


def differences_view(rows: tuple[RowDifference, ...]) -> str:
    """HTML of what the models of one run differ by; empty for a single model."""
    if not rows:
        return ""
    return (
        '<section class="report" aria-label="Differences"><h4>Against the first model, same requests</h4>'
        f'{number_table(HEADINGS, map(_line, rows))}{_cautions(rows)}<p class="fine">{PAIRED} {HOW}</p></section>'
    )


def _cautions(rows: Iterable[RowDifference]) -> str:
    """What stands against taking differences for those of the servers; empty if nothing does."""
    lines = [
        f"<li>{escape(load_words(row.load))}, {escape(_names(row))}: {escape(row.caution)}</li>"
        for row in rows
        if row.caution
    ]
    return f'<div class="failures" role="note"><ul>{"".join(lines)}</ul></div>' if lines else ""


def _names(row: RowDifference) -> str:
    """Who is compared: one model, or b against a."""
    a, b = (legend_words((row.a, row.b), side) for side in (row.a, row.b))
    return b if a == b else f"{b} against {a}"


def _line(row: RowDifference) -> str:
    latencies = (row.latencies.ttft_ms, row.latencies.tpot_ms, row.latencies.e2e_ms)
    numbers = sorted({found.n for found in latencies if found})
    count = " to ".join(str(number) for number in dict.fromkeys((numbers[0], numbers[-1]))) if numbers else "0"
    ratio = row.rates.output_throughput.ratio
    faster = UNKNOWN if ratio is None else f"× {ratio:.3g}"
    return (
        f"<tr><th>{escape(load_words(row.load))}</th><td class='words'>{escape(_names(row))}</td>"
        f"<td>{faster}</td>{''.join(map(_cell, latencies))}<td>{count}</td></tr>"
    )


def _cell(difference: LatencyDifference | None) -> str:
    if difference is None:
        return f"<td>{UNKNOWN}</td>"
    interval = UNKNOWN
    if difference.low is not None and difference.high is not None:
        interval = f"{signed(difference.low)} to {signed(difference.high)}"
    kind = ' class="clear"' if difference.is_clear else ""
    return f"<td{kind}>{signed(difference.mean)}<small>{interval}</small></td>"
