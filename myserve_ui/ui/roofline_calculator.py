"""Sizes a device for any model: type a config, or take a known one, and see what a decode step takes at least."""

from __future__ import annotations

from typing import Any

import gradio as gr


class CalculatorPanel:
    """Placeholder."""

    def draw(self) -> None:
        gr.HTML("…")
