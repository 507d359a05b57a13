"""What a benchmark found, on the page: a sentence, the table, the plots, files to keep, and how to run it again."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gradio as gr

from myserve_ui.bench.documents.rows import Row
from myserve_ui.bench.documents.run import BenchmarkRun
from myserve_ui.bench.question.reproduction import as_command, as_curl, as_gradio_client
from myserve_ui.errors import InvalidRequestError
from myserve_ui.ui.benchmark.tables import EXPLAINED, requests_csv, results_csv, results_table
from myserve_ui.ui.benchmark.view import plots_view, summary_view
from myserve_ui.ui.shared.events import DOWNLOAD, QUIET, Updates, paragraph

EMPTY = (
    "No results yet. Choose a load and run it, or open a saved run. "
    "With the values above a run takes a few minutes on a laptop."
)
Write = Callable[[BenchmarkRun], str]


class ResultsPanel:
    """Shows one document. It is kept for the visitor's session, not in the page: it may be large."""

    def draw(self) -> None:
        """Draw into the open layout and wire."""
        self.document = gr.State(None)
        self._summary = gr.HTML(paragraph("empty", EMPTY), elem_id="bench-summary", padding=False)
        with gr.Column(visible=False) as self._rows:
            self._table = gr.Dataframe(
                interactive=False, wrap=False, show_label=False, elem_id="bench-table", max_height=420
            )
            gr.HTML(paragraph("fine", EXPLAINED), padding=False)
        with gr.Column(visible=False, elem_id="bench-found") as self._found:
            with gr.Row(elem_id="bench-files"):
                buttons = {
                    "json": gr.Button("Save JSON", size="sm", elem_id="bench-json", min_width=100),
                    "csv": gr.Button("Save table as CSV", size="sm", elem_id="bench-csv", min_width=140),
                    "requests": gr.Button("Save requests as CSV", size="sm", elem_id="bench-raw", min_width=160),
                }
            with gr.Accordion("Run it again from elsewhere", open=False, elem_id="bench-again"):
                self._again = gr.Markdown(elem_id="bench-scripts")
            self._plots = gr.HTML("", elem_id="bench-plots", padding=False)
        self._outgoing = gr.JSON(visible=False)
        self._wire(buttons)

    def _wire(self, buttons: Mapping[str, gr.Button]) -> None:
        for name, write in (("json", json_file), ("csv", csv_file), ("requests", requests_file)):
            buttons[name].click(write, self.document, self._outgoing, queue=False, **QUIET).then(
                None, self._outgoing, None, js=DOWNLOAD, **QUIET
            )

    @property
    def outputs(self) -> list[Any]:
        return [self.document, self._summary, self._rows, self._table, self._found, self._again, self._plots]

    def clear(self) -> Updates:
        """Nothing, while a run begins."""
        hidden = gr.update(visible=False)
        return {self.document: None, self._summary: "", self._rows: hidden, self._found: hidden, self._plots: ""}

    def show(self, run: BenchmarkRun) -> Updates:
        """Everything of a finished, stopped, saved or opened run."""
        return {
            self.document: run,
            self._summary: summary_view(run),
            self._rows: gr.update(visible=True),
            self._table: results_table(run.rows),
            self._found: gr.update(visible=True),
            self._again: scripts_markdown(run),
            self._plots: plots_view(run),
        }

    def show_rows(self, rows: Sequence[Row]) -> Updates:
        """The rows that are finished while a run goes on; its plots come at the end."""
        return {self._rows: gr.update(visible=True), self._table: results_table(rows)}


def scripts_markdown(run: BenchmarkRun) -> str:
    """The run as a command, its first request by curl, and a script, each in a block that can be copied."""
    try:
        blocks = (
            ("On the command line", "bash", as_command(run)),
            ("Its first request with curl", "bash", as_curl(run)),
            ("With gradio_client", "python", as_gradio_client(run)),
        )
    except InvalidRequestError as error:  # an older version may have run what is refused now
        return f"This run cannot be asked again as it was. {error.message}"
    return "\n\n".join(f"**{title}**\n\n{_fenced(language, code)}" for title, language, code in blocks)


def _fenced(language: str, code: str) -> str:
    """Between more backticks than the code itself has in a row: a prompt may hold anything."""
    longest = max((len(run) for run in re.findall("`+", code)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{code.strip()}\n{fence}"


def json_file(run: BenchmarkRun | None) -> dict[str, str] | None:
    """The whole document, as the page saves it; None where there is none."""
    if run is None:
        return None
    text = json.dumps(run.as_json(), ensure_ascii=False, allow_nan=False)
    return {"name": f"{_name(run)}.json", "type": "application/json", "text": text}


def csv_file(run: BenchmarkRun | None) -> dict[str, str] | None:
    """The rows, every number of them."""
    return _csv(run, "", results_csv)


def requests_file(run: BenchmarkRun | None) -> dict[str, str] | None:
    """Every request's raw times."""
    return _csv(run, "-requests", requests_csv)


def _csv(run: BenchmarkRun | None, tail: str, write: Write) -> dict[str, str] | None:
    if run is None:
        return None
    return {"name": f"{_name(run)}{tail}.csv", "type": "text/csv", "text": write(run)}


def _name(run: BenchmarkRun) -> str:
    return f"bench-{run.id}"
