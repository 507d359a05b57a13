"""Runs that were kept: open one, delete one, open a file, lay two side by side."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

import gradio as gr

from myserve_ui.bench.benchmark_service import BenchmarkService
from myserve_ui.bench.documents.run import BenchmarkRun
from myserve_ui.bench.documents.store import RunLine
from myserve_ui.core.number_words import count, precision_words
from myserve_ui.errors import MyServeError
from myserve_ui.ui.benchmark.comparison_view import comparison_view
from myserve_ui.ui.benchmark.results import ResultsPanel
from myserve_ui.ui.benchmark.words import moment
from myserve_ui.ui.shared.events import QUIET, UNEXPECTED, Updates, paragraph, problem

logger = logging.getLogger(__name__)

NOT_CHOSEN = "Choose a saved run first."
NOT_TWO = "Choose two different runs to compare."


class HistoryPanel:
    """Lists the server's runs anew whenever it is opened or a run has ended."""

    def __init__(self, service: BenchmarkService, results: ResultsPanel) -> None:
        self._service = service
        self._results = results

    def draw(self) -> None:
        """Draw into the open layout; `wire` once the results are drawn."""
        with gr.Accordion("Saved runs", open=False, elem_id="bench-history") as self._fold:
            with gr.Row(elem_classes="questions"):
                self._run = _choice("Run", "bench-run")
                self._other = _choice("Compare with", "bench-run-other")
            with gr.Row(elem_id="bench-run-buttons"):
                self._open = gr.Button("Open", size="sm", elem_id="bench-open", min_width=80)
                self._compare = gr.Button("Compare both", size="sm", elem_id="bench-compare", min_width=110)
                self._delete = gr.Button("Delete", size="sm", variant="stop", elem_id="bench-delete", min_width=80)
                self._file = gr.UploadButton(
                    "Open a file…", type="binary", file_types=[".json"], size="sm", elem_id="bench-file", min_width=110
                )
            self._words = gr.HTML("", elem_id="bench-run-words", padding=False)
            self._comparison = gr.HTML("", elem_id="bench-comparison", padding=False)

    def wire(self, occasions: Sequence[Callable[..., Any]]) -> None:
        """Connect the events; after each of `occasions` the list is read again."""
        lists = [self._run, self._other, self._words]
        for occasion in (self._fold.expand, *occasions):
            occasion(self.on_list, [self._run, self._other], lists, queue=False, **QUIET)
        shown = [self._words, *self._results.outputs]
        self._open.click(self.on_open, self._run, shown, queue=False, **QUIET)
        self._file.upload(self.on_file, self._file, shown, queue=False, **QUIET)
        both = [self._run, self._other]
        self._compare.click(self.on_compare, both, [self._words, self._comparison], queue=False, **QUIET)
        self._delete.click(self.on_delete, both, lists, queue=False, **QUIET)

    async def on_list(self, run: str | None, other: str | None) -> list[Any]:
        """Both lists, with what was chosen still chosen if it is still there; and how many files are damaged."""
        listing = await self._service.runs()
        choices = [(run_words(line), line.id) for line in listing.runs]
        known = [value for _, value in choices]
        newest = known[0] if known else None
        values = [run if run in known else newest, other if other in known else None]
        words = f"Damaged, left out: {', '.join(listing.damaged)}." if listing.damaged else ""
        if not known:
            words = f"Nothing is saved yet. {words}"
        return [*(gr.update(choices=choices, value=value) for value in values), paragraph("fine", words)]

    async def on_open(self, run: str | None) -> Updates:
        """Show a saved run where a new one would be shown."""
        if not run:
            return {self._words: problem(NOT_CHOSEN)}
        try:
            found = await self._service.load_run(run)
            return {self._words: ""} | await asyncio.to_thread(self._results.show, found)
        except MyServeError as error:
            return {self._words: problem(error.message)}

    def on_file(self, data: bytes) -> Updates:
        """Show a run from a file; one that is none leaves everything as it is."""
        try:
            return {self._words: ""} | self._results.show(BenchmarkRun.read(data))
        except MyServeError as error:
            return {self._words: problem(error.message)}
        except Exception:  # a file may hold anything, also what only looks like a run
            logger.exception("a benchmark file could not be shown")
            return {self._words: problem(UNEXPECTED)}

    async def on_compare(self, run: str | None, other: str | None) -> Updates:
        """The differences of two runs."""
        if not run or not other or run == other:
            return {self._words: problem(NOT_TWO)}
        try:
            return {self._words: "", self._comparison: comparison_view(await self._service.compare(run, other))}
        except MyServeError as error:
            return {self._words: problem(error.message), self._comparison: ""}

    async def on_delete(self, run: str | None, other: str | None) -> list[Any]:
        """Forget a run; both lists without it, and what came of it."""
        words = paragraph("fine", "Deleted.") if run else problem(NOT_CHOSEN)
        try:
            if run:
                await self._service.delete_run(run)
        except MyServeError as error:
            words = problem(error.message)
        return [*(await self.on_list(run, other))[:2], words]


def run_words(line: RunLine) -> str:
    """A run in a list: 2026-11-29 12:00:00 · tiny, nf4 · 2 rows · best 76.5 tok/s."""
    names = ", ".join(line.models if _has_several(line) else map(precision_words, line.precisions)) or "nothing"
    stopped = " · stopped" if line.stopped else ""
    best = f"best {line.best_throughput:.1f} tok/s"
    return f"{moment(line.started)} · {names} · {count(line.num_rows, 'row')} · {best}{stopped}"


def _has_several(line: RunLine) -> bool:
    """Whether the models of a run are not told apart by their precisions."""
    return len(line.models) > len(line.precisions)


def _choice(label: str, name: str) -> gr.Dropdown:
    return gr.Dropdown([], value=None, label=label, elem_id=name, filterable=False, min_width=220)
