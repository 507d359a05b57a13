"""The Benchmark page's questions: any number gets as far as the sentence about it."""

from __future__ import annotations

import gradio as gr
import pytest

from myserve_ui.core.model_info import LoadState, ModelInfo
from myserve_ui.errors import InvalidRequestError
from myserve_ui.ui.benchmark.form import draw_form

MODEL = ModelInfo("tiny", "tiny", "full", LoadState.READY)


def test_gradio_refuses_no_number_by_itself() -> None:
    with gr.Blocks():
        form = draw_form([MODEL], "tiny", may_leave=True)
    numbers = [component for component in form.named().values() if isinstance(component, gr.Number)]
    assert len(numbers) == 6
    for component in numbers:
        assert component.preprocess(-3.0) == -3, component.label


def test_an_empty_number_is_named() -> None:
    with gr.Blocks():
        form = draw_form([MODEL], "tiny", may_leave=True)
    values = {component: component.value for component in form.inputs} | {form.turns: None}
    with pytest.raises(InvalidRequestError, match="turns is empty"):
        form.read(values)
