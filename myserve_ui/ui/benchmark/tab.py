"""The Benchmark page: a load test with its results and saved runs, and what the machine could do at most."""

from __future__ import annotations

import gradio as gr

from myserve_ui.bench.benchmark_service import BenchmarkService
from myserve_ui.ui.benchmark.form import draw_form
from myserve_ui.ui.benchmark.history import HistoryPanel
from myserve_ui.ui.benchmark.results import ResultsPanel
from myserve_ui.ui.benchmark.roofline_calculator import CalculatorPanel
from myserve_ui.ui.benchmark.roofline_card import RooflineCard
from myserve_ui.ui.benchmark.run import BenchRun


def draw_benchmark_tab(service: BenchmarkService) -> None:
    """Draw the page into the open layout and wire it. Holds nothing of any visitor but whether a run goes on."""
    with gr.Tabs(elem_id="bench-parts"):
        with gr.Tab("Load test", elem_id="load-test"):
            _draw_load_test(service)
        with gr.Tab("Roofline", elem_id="roofline-part"):
            RooflineCard(service).draw()
        with gr.Tab("Calculator", elem_id="calculator-part"):
            CalculatorPanel().draw()


def _draw_load_test(service: BenchmarkService) -> None:
    models = service.models()
    form = draw_form(models, models[0].id, may_leave=service.own.measures_others)
    results = ResultsPanel()
    run = BenchRun(service, form, results)
    history = HistoryPanel(service, results)
    run.draw()
    history.draw()
    results.draw()
    history.wire(run.wire())
