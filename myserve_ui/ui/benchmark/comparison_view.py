"""Differences of two runs, or of two models of one run, as a table of HTML: b against a, with 95 % intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from myserve_ui.bench.documents.differences import LatencyDifference, RowDifference, RunComparison
from myserve_ui.bench.loads import load_words
from myserve_ui.core.number_words import UNKNOWN, signed
from myserve_ui.ui.benchmark.words import legend_words
from myserve_ui.ui.shared.templates import render

PAIRED = "Paired: both sides got the same requests, and each is compared with itself."
UNPAIRED = "Not paired: the runs asked different things, so their means are compared (Welch)."
HOW = (
    "Mean difference b − a in milliseconds with its 95 % interval; bold where the interval leaves out zero. "
    "tok/s: b over a."
)


@dataclass(frozen=True, slots=True)
class Cell:
    """A mean difference with its interval; no interval where there is no mean."""

    mean: str
    interval: str = ""
    is_clear: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """One row against its counterpart, as words."""

    load: str
    names: str
    faster: str
    cells: list[Cell]
    count: str
    caution: str | None
    """What stands against taking the difference for that of the servers."""


def comparison_view(comparison: RunComparison) -> Markup:
    """HTML of two runs side by side."""
    how = f"{PAIRED if comparison.is_paired else UNPAIRED} {HOW}"
    left_out = len(comparison.unmatched.a) + len(comparison.unmatched.b)
    words = f" {left_out} rows have no counterpart." if left_out else ""
    lead = f"a = {comparison.a}, b = {comparison.b}"
    return _table(comparison.rows, label="Comparison", lead=lead, how=how + words)


def differences_view(rows: Sequence[RowDifference]) -> Markup:
    """HTML of what the models of one run differ by; empty for a single model."""
    return _table(rows, label="Differences", lead="", how=f"{PAIRED} {HOW}") if rows else Markup()


def _table(rows: Sequence[RowDifference], *, label: str, lead: str, how: str) -> Markup:
    return render("benchmark/differences", label=label, lead=lead, how=how, lines=[_line(row) for row in rows])


def _names(row: RowDifference) -> str:
    """Who is compared: one model, or b against a."""
    a, b = (legend_words((row.a, row.b), side) for side in (row.a, row.b))
    return b if a == b else f"{b} against {a}"


def _line(row: RowDifference) -> Line:
    latencies = (row.latencies.ttft_ms, row.latencies.tpot_ms, row.latencies.e2e_ms)
    numbers = sorted({found.n for found in latencies if found})
    ratio = row.rates.output_throughput.ratio
    return Line(
        load=load_words(row.load),
        names=_names(row),
        faster=UNKNOWN if ratio is None else f"× {ratio:.3g}",
        cells=[_cell(found) for found in latencies],
        count=" to ".join(str(number) for number in dict.fromkeys((numbers[0], numbers[-1]))) if numbers else "0",
        caution=row.caution,
    )


def _cell(difference: LatencyDifference | None) -> Cell:
    if difference is None:
        return Cell(UNKNOWN)
    interval = UNKNOWN
    if difference.low is not None and difference.high is not None:
        interval = f"{signed(difference.low)} to {signed(difference.high)}"
    return Cell(signed(difference.mean), interval, difference.is_clear)
