"""The fidelity report on the Compare page: a text scored by both models, with progress, Stop, saving and opening."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any

import gradio as gr

from myserve_ui.errors import InvalidRequestError, MyServeError
from myserve_ui.evaluation.comparisons import Comparisons
from myserve_ui.evaluation.documents import FidelityReport
from myserve_ui.evaluation.fidelity import FidelityRequest, Progress
from myserve_ui.evaluation.windows import DEFAULT_STRIDE, DEFAULT_WINDOW, MAX_WINDOW
from myserve_ui.ui.compare.report import report_view
from myserve_ui.ui.shared.assets import held_out_text
from myserve_ui.ui.shared.events import (
    DOWNLOAD,
    QUIET,
    UNEXPECTED,
    Updates,
    paragraph,
    problem,
    progress_bar,
    wire_stop,
)
from myserve_ui.ui.shared.streams import with_heartbeat

logger = logging.getLogger(__name__)

INTRODUCTION = (
    "Both models read the same text and predict each of its tokens. What differs is what the cheaper precision costs."
)
LOADING = "loading the models"


class FidelityPanel:
    """Draws and wires a report. Holds nothing of any visitor: the report itself stays in the browser."""

    def __init__(self, comparisons: Comparisons, base: gr.Dropdown, candidate: gr.Dropdown) -> None:
        self._comparisons = comparisons
        self._base = base
        self._candidate = candidate

    def draw(self) -> None:
        """Draw into the open layout and wire."""
        gr.HTML(paragraph("lead", INTRODUCTION), padding=False)
        self._text = gr.Textbox(
            held_out_text(),
            label="Text",
            info="the held-out text of this project, or your own",
            lines=5,
            max_lines=5,
            elem_id="fidelity-text",
        )
        with gr.Row(elem_id="fidelity-settings"):
            self._window = gr.Number(DEFAULT_WINDOW, precision=0, label="Window", info=f"tokens, 2 to {MAX_WINDOW}")
            self._stride = gr.Number(DEFAULT_STRIDE, precision=0, label="Stride", info="tokens, 1 to the window")
            with gr.Column(min_width=300, elem_id="fidelity-buttons"), gr.Row():
                self._start = gr.Button("Measure", variant="primary", elem_id="fidelity-start", min_width=90)
                self._stop = gr.Button("Stop", variant="stop", visible=False, elem_id="fidelity-stop", min_width=90)
                self._upload = gr.UploadButton("Text file…", type="binary", elem_id="fidelity-upload", min_width=90)
        self._progress = gr.HTML("", elem_id="fidelity-progress", padding=False)
        with gr.Row(elem_id="fidelity-files"):
            self._save = gr.Button("Save report", size="sm", visible=False, elem_id="fidelity-save", min_width=110)
            self._open = gr.UploadButton(
                "Open a report…", type="binary", file_types=[".json"], size="sm", elem_id="fidelity-open", min_width=110
            )
        self._report = gr.HTML("", elem_id="fidelity-report", padding=False)
        self._document = gr.JSON(visible=False)
        self._wire()

    def _wire(self) -> None:
        inputs = {self._base, self._candidate, self._text, self._window, self._stride}
        outputs = [self._start, self._stop, self._progress, self._report, self._document, self._save]
        run = self._start.click(self.on_start, inputs, outputs, concurrency_limit=None, trigger_mode="once", **QUIET)
        wire_stop(self._stop, run, self.on_stop, inputs=None, outputs=outputs)
        self._save.click(None, self._document, None, js=DOWNLOAD, **QUIET)
        self._upload.upload(self.on_text, self._upload, [self._text, self._progress], queue=False, **QUIET)
        self._open.upload(self.on_open, self._open, outputs, queue=False, **QUIET)

    async def on_start(self, inputs: Mapping[Any, Any]) -> AsyncGenerator[Updates, None]:
        try:
            request = self._request(inputs)
            yield self._buttons(running=True) | {self._progress: progress_bar(0, 0, LOADING)}
            async with aclosing(with_heartbeat(self._comparisons.report(request))) as steps:
                async for step in steps:
                    yield {self._stop: gr.skip()} if step is None else self._shown(step)
        except MyServeError as error:
            yield self._buttons(running=False) | {self._progress: problem(error.message)}
        except Exception:
            logger.exception("a fidelity report failed")
            yield self._buttons(running=False) | {self._progress: problem(UNEXPECTED)}

    def on_stop(self) -> Updates:
        return self._buttons(running=False) | {self._progress: paragraph("fine", "Stopped; nothing was measured.")}

    def on_text(self, data: bytes) -> Updates:
        """Take an uploaded text into the box; one that is not UTF-8 leaves the box as it is."""
        try:
            return {self._text: data.decode("utf-8-sig"), self._progress: ""}
        except UnicodeDecodeError as error:
            return {self._progress: problem(f"The file is not UTF-8 text (byte {error.start}); save it as UTF-8.")}

    def on_open(self, data: bytes) -> Updates:
        """Show a saved report; a file that is none leaves everything as it is."""
        try:
            return self._result(FidelityReport.read(data))
        except InvalidRequestError as error:
            return {self._progress: problem(error.message)}

    def _request(self, inputs: Mapping[Any, Any]) -> FidelityRequest:
        """Raises InvalidRequestError for a text or a number that is not there."""
        if not str(inputs[self._text] or "").strip():
            raise InvalidRequestError("The text is empty. Paste some, or choose a text file.")
        return FidelityRequest(
            inputs[self._text],
            base=inputs[self._base] or "",
            candidate=inputs[self._candidate] or "",
            window=_asked(inputs[self._window], DEFAULT_WINDOW),
            stride=_asked(inputs[self._stride], DEFAULT_STRIDE),
        )

    def _shown(self, step: Progress[FidelityReport]) -> Updates:
        if step.document is not None:
            return self._buttons(running=False) | self._result(step.document)
        words = f"{step.tokens_done:,} of {step.tokens_total:,} tokens scored"
        return {self._progress: progress_bar(step.tokens_done, step.tokens_total, words)}

    def _result(self, report: FidelityReport) -> Updates:
        text = json.dumps(report.as_json(), ensure_ascii=False, allow_nan=False)
        return {
            self._progress: "",
            self._report: report_view(report),
            self._document: {"name": "fidelity.json", "type": "application/json", "text": text},
            self._save: gr.update(visible=True),
        }

    def _buttons(self, *, running: bool) -> Updates:
        return {self._start: gr.update(visible=not running), self._stop: gr.update(visible=running)}


def _asked(value: float | None, default: int) -> int | None:
    """What a person chose; None where the page's own number stands, which is fitted to the context."""
    return None if value == default else int(value or 0)
