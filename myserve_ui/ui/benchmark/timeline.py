"""A benchmark's requests over time: a bar for each, coloured by what it waited for. SVG, values on hover."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from myserve_ui.bench.client.records import Outcome
from myserve_ui.bench.documents.rows import RequestEntry, Row
from myserve_ui.bench.documents.run import BenchmarkRun
from myserve_ui.core.number_words import seconds
from myserve_ui.ui.benchmark.tables import server_words
from myserve_ui.ui.benchmark.words import circumstances, row_words
from myserve_ui.ui.shared.axes import linear_axis
from myserve_ui.ui.shared.plots import figure

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


def timelines(run: BenchmarkRun) -> str:
    """HTML: a figure for each row, folded away but for the last one, which is the busiest."""
    rows = run.rows
    most = max(FEWEST_BARS, MOST_BARS // max(1, len(rows)))
    records: list[list[RequestEntry]] = [[] for _ in rows]
    for record in run.requests:
        records[record.row].append(record)
    blocks = [
        f"<details{' open' if index == len(rows) - 1 else ''}><summary>{escape(row_words(row))}</summary>"
        f"{_timeline(run, row, records[index][:most], len(records[index]))}</details>"
        for index, row in enumerate(rows)
        if records[index]
    ]
    return f'<section class="timelines" aria-label="Timeline of requests">{"".join(blocks)}</section>' if blocks else ""


def _timeline(run: BenchmarkRun, row: Row, records: Sequence[RequestEntry], total: int) -> str:
    pieces = [pieces_of(record) for record in records]
    x = linear_axis("seconds since the start", [end for bars in pieces for _, _, end in bars])
    height = 100 / len(records)
    bars = "".join(
        f'<rect class="{phase}" x="{x.place(start):.2f}%" width="{x.place(end) - x.place(start):.2f}%" '
        f'y="{height * (line + 0.1):.2f}%" height="{height * 0.8:.2f}%"><title>{escape(_title(record))}</title></rect>'
        for line, (record, own) in enumerate(zip(records, pieces, strict=True))
        for phase, start, end in own
    )
    ticks = "".join(
        f'<line class="grid" x1="{x.place(value):.2f}%" x2="{x.place(value):.2f}%" y1="0" y2="100%"/>'
        f'<text class="tick" y="100%" dy="15" text-anchor="middle" x="{x.place(value):.2f}%">{words}</text>'
        for value, words in x.ticks
    )
    axis = f'{ticks}<text class="name" x="50%" y="100%" dy="31" text-anchor="middle">{x.label}</text>'
    shown = f"the first {len(records)} of {total} requests" if len(records) < total else ""
    return figure(
        f"Timeline: {row_words(row)}",
        f"{axis}{bars}",
        legend=_legend({phase for own in pieces for phase, _, _ in own}),
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


def _legend(phases: set[str]) -> str:
    items = "".join(
        f'<li><svg width="12" height="10" aria-hidden="true"><rect class="{phase}" width="12" height="10"/></svg>'
        f"{words}</li>"
        for phase, words in PHASES.items()
        if phase in phases
    )
    return f'<ul class="legend">{items}</ul>'
