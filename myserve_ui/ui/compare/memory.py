"""Memory on the Compare page: what both models take, what of it is quantised, how much room is left for sequences."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import gradio as gr

from myserve_ui.bench.machine.speed import measure_machine
from myserve_ui.bench.roofline.roofline import DecodeBound, MachineSpeed, ModelCost, predict_decode
from myserve_ui.core.memory_report import count_weight_traffic
from myserve_ui.core.model_info import ModelInfo
from myserve_ui.errors import MyServeError
from myserve_ui.evaluation.comparisons import Comparisons, Footprint
from myserve_ui.evaluation.plain_words import FUSED_DTYPE
from myserve_ui.serving.step_loop import on_own_thread
from myserve_ui.ui.compare.memory_view import CONTEXT, MemorySide, memory_view
from myserve_ui.ui.shared.events import QUIET, problem, working
from myserve_ui.ui.shared.streams import with_heartbeat
from myserve_ui.ui.shared.words import load_line

MEASURING = "measuring how fast this machine reads and multiplies"


class MemoryPanel:
    """Tables of both models; weights that are not loaded are loaded when they are asked for.

    The machine is measured once; several visitors who ask at the same time wait for one measurement.
    """

    def __init__(self, comparisons: Comparisons, base: gr.Dropdown, candidate: gr.Dropdown) -> None:
        self._comparisons = comparisons
        self._base = base
        self._candidate = candidate
        self._speeds: dict[tuple[str, str], MachineSpeed] = {}
        self._one_measurement = asyncio.Lock()

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
            yield working(MEASURING)
            yield memory_view([await self._side(name) for name in names])
        except MyServeError as error:
            yield problem(error.message)

    async def _loading(self, names: tuple[str, str]) -> AsyncGenerator[Any, None]:
        for name in names:
            async for progress in with_heartbeat(_generator(self._comparisons.chat.load(name))):
                yield gr.skip() if progress is None else working(load_line(progress))

    async def _side(self, name: str) -> MemorySide:
        chat = self._comparisons.chat
        engine = next((engine for engine in chat.status().engines if engine.model == name), None)
        info, footprint = chat.model(name), self._comparisons.footprint(name)
        weights = footprint.weights if footprint else None
        bound = await self._bound(info, footprint) if footprint and weights else None
        peak = footprint.peak_bytes if footprint else None
        return MemorySide(info, weights, engine, bound, peak)

    async def _bound(self, info: ModelInfo, footprint: Footprint) -> DecodeBound | None:
        """The least time of a decode step of one sequence."""
        if footprint.weights is None or not info.kv_bytes_per_token:
            return None
        expands = info.precision == "nf4" and info.dtype != FUSED_DTYPE
        traffic = count_weight_traffic(
            footprint.weights, expanded_itemsize=footprint.dtype.itemsize if expands else None
        )
        cost = ModelCost(traffic, footprint.weights.num_parameters, info.kv_bytes_per_token)
        return predict_decode(await self._speed(footprint), cost, batch=1, context=CONTEXT)

    async def _speed(self, footprint: Footprint) -> MachineSpeed:
        key = str(footprint.device), str(footprint.dtype)
        async with self._one_measurement:
            if key not in self._speeds:
                self._speeds[key] = await on_own_thread(measure_machine, footprint.device, footprint.dtype)
        return self._speeds[key]


async def _generator(items: Any) -> AsyncGenerator[Any, None]:
    async for item in items:
        yield item
