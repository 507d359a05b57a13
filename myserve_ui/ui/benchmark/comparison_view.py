"""Differences of two runs, or of two models of one run, as a table of HTML: b against a, with 95 % intervals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

from myserve_ui.ui.benchmark.tables import decimal
from myserve_ui.ui.benchmark.words import UNKNOWN, Document, legend_words, load_words
from myserve_ui.ui.shared.number_table import number_table

HEADINGS = ("load", "b against a", "tok/s", "TTFT, ms", "TPOT, ms", "E2E, ms", "n")
LATENCIES = ("ttft_ms", "tpot_ms", "e2e_ms")
PAIRED = "Paired: both sides got the same requests, and each is compared with itself."
UNPAIRED = "Not paired: the runs asked different things, so their means are compared (Welch)."
HOW = (
    "Mean difference b − a in milliseconds with its 95 % interval; bold where the interval leaves out zero. "
    "tok/s: b over a."
)


def comparison_view(comparison: Mapping[str, Any]) -> str:
    """HTML of a `bench_comparison` document."""
    how = PAIRED if comparison["is_paired"] else UNPAIRED
    left_out = sum(map(len, comparison["unmatched"].values()))
    words = f" {left_out} rows have no counterpart." if left_out else ""
    return (
        f'<section class="report" aria-label="Comparison"><p class="lead">a = {escape(comparison["a"])}, '
        f"b = {escape(comparison['b'])}</p>{number_table(HEADINGS, map(_line, comparison['rows']))}"
        f'{_cautions(comparison["rows"])}<p class="fine">{how} {HOW}{escape(words)}</p></section>'
    )


def differences_view(document: Document) -> str:
    """HTML of what the models of one run differ by; empty for a single model."""
    rows = document.get("differences") or []
    if not rows:
        return ""
    return (
        '<section class="report" aria-label="Differences"><h4>Against the first model, same requests</h4>'
        f'{number_table(HEADINGS, map(_line, rows))}{_cautions(rows)}<p class="fine">{PAIRED} {HOW}</p></section>'
    )


def _cautions(rows: Iterable[Mapping[str, Any]]) -> str:
    """What stands against taking differences for those of the servers; empty if nothing does."""
    lines = [
        f"<li>{escape(load_words(row['load']))}, {escape(_names(row))}: {escape(row['caution'])}</li>"
        for row in rows
        if row.get("caution")
    ]
    return f'<div class="failures" role="note"><ul>{"".join(lines)}</ul></div>' if lines else ""


def _names(row: Mapping[str, Any]) -> str:
    """Who is compared: one model, or b against a."""
    a, b = (legend_words({"rows": [row["a"], row["b"]]}, row[side]) for side in ("a", "b"))
    return b if a == b else f"{b} against {a}"


def _line(row: Mapping[str, Any]) -> str:
    latencies = [row["latencies"].get(name) for name in LATENCIES]
    numbers = sorted({found["n"] for found in latencies if found})
    count = " to ".join(str(number) for number in dict.fromkeys((numbers[0], numbers[-1]))) if numbers else "0"
    ratio = row["rates"]["output_throughput"]["ratio"]
    faster = UNKNOWN if ratio is None else f"× {ratio:.3g}"
    return (
        f"<tr><th>{escape(load_words(row['load']))}</th><td class='words'>{escape(_names(row))}</td>"
        f"<td>{faster}</td>{''.join(map(_cell, latencies))}<td>{count}</td></tr>"
    )


def _cell(difference: Mapping[str, Any] | None) -> str:
    if difference is None:
        return f"<td>{UNKNOWN}</td>"
    interval = UNKNOWN
    if difference["low"] is not None and difference["high"] is not None:
        interval = f"{signed(difference['low'])} to {signed(difference['high'])}"
    kind = ' class="clear"' if difference["is_clear"] else ""
    return f"<td{kind}>{signed(difference['mean'])}<small>{interval}</small></td>"


def signed(value: float) -> str:
    """+12.3, −4.56."""
    return f"{'−' if value < 0 else '+'}{decimal(abs(value))}"
