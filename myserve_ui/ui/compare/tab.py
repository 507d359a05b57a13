"""The Compare page: which two models, and below them answers side by side, a fidelity report, and memory."""

from __future__ import annotations

from typing import Any

import gradio as gr
from markupsafe import Markup

from myserve_ui.bench.machine.speeds import MachineSpeeds
from myserve_ui.errors import ModelNotFoundError
from myserve_ui.evaluation.comparisons import Comparisons
from myserve_ui.evaluation.plain_words import caveats
from myserve_ui.ui.compare.branch import BranchPanel
from myserve_ui.ui.compare.fidelity import FidelityPanel
from myserve_ui.ui.compare.memory import MemoryPanel
from myserve_ui.ui.compare.run import CompareRun, draw_run
from myserve_ui.ui.shared.events import QUIET
from myserve_ui.ui.shared.templates import render
from myserve_ui.ui.shared.words import model_choices


class CompareTab:
    """Draws the page into the open layout and wires it. Holds nothing of any visitor."""

    def __init__(self, comparisons: Comparisons, speeds: MachineSpeeds) -> None:
        self._comparisons = comparisons
        self._speeds = speeds

    def draw(self) -> None:
        base, candidate = self._draw_pair()
        with gr.Tabs(elem_id="compare-parts"):
            with gr.Tab("Side by side", elem_id="side-by-side"):
                run = draw_run(self._comparisons, base, candidate)
                CompareRun(self._comparisons, run).wire()
                BranchPanel(self._comparisons.chat, run).draw()
            with gr.Tab("Fidelity report", elem_id="fidelity"):
                FidelityPanel(self._comparisons, base, candidate).draw()
            with gr.Tab("Memory", elem_id="memory"):
                MemoryPanel(self._comparisons, self._speeds, base, candidate).draw()

    def _draw_pair(self) -> tuple[gr.Dropdown, gr.Dropdown]:
        choices = model_choices(self._comparisons.models())
        names = self._comparisons.pair()
        with gr.Row(elem_id="pair"):
            base = gr.Dropdown(choices, value=names[0], label="Base", elem_id="base", filterable=False, min_width=180)
            swap = gr.Button("⇄", elem_id="swap", scale=0, min_width=44)
            candidate = gr.Dropdown(
                choices, value=names[1], label="Candidate", elem_id="candidate", filterable=False, min_width=180
            )
        words = gr.HTML(self._caveats(*names), elem_id="caveats", padding=False)
        swap.click(None, [base, candidate], [base, candidate], js="(base, candidate) => [candidate, base]", **QUIET)
        gr.on([base.change, candidate.change], self._caveats, [base, candidate], words, queue=False, **QUIET)
        return base, candidate

    def _caveats(self, base: Any, candidate: Any) -> Markup:
        """HTML of what must be known before reading a number."""
        try:
            infos = [self._comparisons.chat.model(str(name or "")) for name in (base, candidate)]
        except ModelNotFoundError as error:
            return render("compare/sentences", sentences=[error.message])
        return render("compare/sentences", sentences=caveats(*infos))
