"""Memory on the Compare page: what both models take, what of it is quantised, how much room is left for sequences."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import gradio as gr

from myserve_ui.bench.machine.speeds import MachineSpeeds
from myserve_ui.bench.roofline.roofline import DecodeBound, predict_decode
from myserve_ui.core.model_info import ModelInfo
from myserve_ui.errors import MyServeError
from myserve_ui.evaluation.comparisons import Comparisons
from myserve_ui.ui.compare.memory_view import CONTEXT, MemorySide, memory_view
from myserve_ui.ui.shared.events import QUIET, paragraph, problem
from myserve_ui.ui.shared.streams import with_heartbeat
from myserve_ui.ui.shared.words import load_line

MEASURING = "measuring how fast this machine reads and multiplies"


class MemoryPanel:
    """Tables of both models; weights that are not loaded are loaded when they are asked for."""

    def __init__(
        self, comparisons: Comparisons, speeds: MachineSpeeds, base: gr.Dropdown, candidate: gr.Dropdown
    ) -> None:
        self._comparisons = comparisons
        self._speeds = speeds
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
            yield paragraph("working", MEASURING)
            yield memory_view([await self._side(name) for name in names])
        except MyServeError as error:
            yield problem(error.message)

    async def _loading(self, names: tuple[str, str]) -> AsyncGenerator[Any, None]:
        for name in names:
            async for progress in with_heartbeat(_generator(self._comparisons.chat.load(name))):
                yield gr.skip() if progress is None else paragraph("working", load_line(progress))

    async def _side(self, name: str) -> MemorySide:
        chat = self._comparisons.chat
        engine = next((engine for engine in chat.status().engines if engine.model == name), None)
        info, footprint = chat.model(name), self._comparisons.footprint(name)
        weights = footprint.weights if footprint else None
        bound = await self._bound(info) if weights else None
        peak = footprint.peak_bytes if footprint else None
        return MemorySide(info, weights, engine, bound, peak)

    async def _bound(self, info: ModelInfo) -> DecodeBound | None:
        """The least time of a decode step of one sequence."""
        found = await self._speeds.roofline(info)
        return predict_decode(found.machine, found.cost, batch=1, context=CONTEXT) if found else None


async def _generator(items: Any) -> AsyncGenerator[Any, None]:
    async for item in items:
        yield item
