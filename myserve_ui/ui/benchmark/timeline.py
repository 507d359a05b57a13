"""A benchmark's requests over time: a bar for each, coloured by what it waited for. SVG, values on hover."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from myserve_ui.bench.client.records import Outcome
from myserve_ui.bench.documents.rows import RequestEntry, Row
from myserve_ui.bench.documents.run import BenchmarkRun
from myserve_ui.core.number_words import seconds
from myserve_ui.ui.benchmark.tables import server_words
from myserve_ui.ui.benchmark.words import circumstances, row_words
from myserve_ui.ui.shared.axes import linear_axis
from myserve_ui.ui.shared.templates import render

MOST_BARS, FEWEST_BARS = 480, 24
"""In all timelines of a page together, and in each whatever their number."""
ROW_PIXELS, LEAST_PIXELS = 7, 60
PHASES = {
    "waits": "not sent yet",
    "first": "until the first token: queue and prefill",
    "decode": "tokens come",
    "lost": "failed or stopped",
}
Piece = tuple[str, float, float]
"""(phase, from, to) in seconds since the start of the row."""


def timelines(run: BenchmarkRun) -> Markup:
    """HTML: a figure for each row, folded away but for the last one, which is the busiest."""
    rows = run.rows
    most = max(FEWEST_BARS, MOST_BARS // max(1, len(rows)))
    records: list[list[RequestEntry]] = [[] for _ in rows]
    for record in run.requests:
        records[record.row].append(record)
    figures = [
        (row_words(row), row is rows[-1], _timeline(run, row, found[:most], len(found)))
        for row, found in zip(rows, records, strict=True)
        if found
    ]
    return render("benchmark/timelines", figures=figures) if figures else Markup()


def _timeline(run: BenchmarkRun, row: Row, records: Sequence[RequestEntry], total: int) -> Markup:
    requests = [(_title(record), pieces_of(record)) for record in records]
    waited_for = {phase for _, pieces in requests for phase, _, _ in pieces}
    shown = f"the first {len(records)} of {total} requests" if len(records) < total else ""
    return render(
        "benchmark/timeline",
        title=f"Timeline: {row_words(row)}",
        x=linear_axis("seconds since the start", [end for _, pieces in requests for _, _, end in pieces]),
        requests=requests,
        phases=[(phase, words) for phase, words in PHASES.items() if phase in waited_for],
        caption=" · ".join(filter(None, (circumstances(run, [row]), shown, server_words(row)))),
        height=max(LEAST_PIXELS, ROW_PIXELS * len(records)),
    )


def pieces_of(record: RequestEntry) -> list[Piece]:
    """What a request waited for, one after the other; empty spans left out."""
    arrival, sent, end, first = record.arrival, record.sent, record.end, record.first_token
    if record.outcome is not Outcome.COMPLETED or first is None:
        return _with_length([("waits", arrival, sent), ("lost", sent, end)])
    last = end if record.last_token is None else max(record.last_token, first)
    return _with_length([("waits", arrival, sent), ("first", sent, first), ("decode", first, last)])


def _with_length(pieces: Sequence[Piece]) -> list[Piece]:
    return [piece for piece in pieces if piece[2] > piece[1]]


def _title(record: RequestEntry) -> str:
    words = [f"request {record.index + 1}, {record.outcome}"]
    if record.first_token is not None:
        words.append(f"first token after {seconds(record.first_token - record.sent)}")
    words.append(f"in all {seconds(record.end - record.sent)}")
    if record.output_tokens:
        words.append(f"{record.prompt_tokens} tokens in, {record.output_tokens} out")
    if record.error:
        words.append(record.error)
    return "; ".join(words)
