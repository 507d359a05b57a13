"""Memory on the Compare page: what both models take, what of it is quantised, how much room is left for sequences."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from html import escape
from typing import Any

import gradio as gr

from myserve_ui.errors import MyServeError
from myserve_ui.evaluation.comparisons import Comparisons
from myserve_ui.ui.compare_memory_view import MemorySide, memory_view
from myserve_ui.ui.compare_run import QUIET, problem
from myserve_ui.ui.formatting import load_line
from myserve_ui.ui.heartbeat import with_heartbeat


class MemoryPanel:
    """Tables of both models; weights that are not loaded are loaded when they are asked for."""

    def __init__(self, comparisons: Comparisons, base: gr.Dropdown, candidate: gr.Dropdown) -> None:
        self._comparisons = comparisons
        self._base = base
        self._candidate = candidate

    def draw(self) -> None:
        """Draw into the open layout and wire."""
        start = gr.Button("Show memory", variant="primary", elem_id="memory-start", scale=0, min_width=140)
        table = gr.HTML("", elem_id="memory-table", padding=False)
        start.click(self.on_start, [self._base, self._candidate], table, concurrency_limit=None, **QUIET)

    async def on_start(self, base: str, candidate: str) -> AsyncGenerator[Any, None]:
        """Load both, in sight, then tell what they take."""
        try:
            names = self._comparisons.pair(base or "", candidate or "")
            async for words in self._loading(names):
                yield words
            yield memory_view([self._side(name) for name in names])
        except MyServeError as error:
            yield problem(error.message)

    async def _loading(self, names: tuple[str, str]) -> AsyncGenerator[Any, None]:
        for name in names:
            async for progress in with_heartbeat(_generator(self._comparisons.chat.load(name))):
                yield gr.skip() if progress is None else f'<p class="working">{escape(load_line(progress))}</p>'

    def _side(self, name: str) -> MemorySide:
        chat = self._comparisons.chat
        engine = next((engine for engine in chat.status().engines if engine.model == name), None)
        return MemorySide(chat.model(name), self._comparisons.weights(name), engine)


async def _generator(items: Any) -> AsyncGenerator[Any, None]:
    async for item in items:
        yield item
