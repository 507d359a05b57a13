"""Memory on the Compare page: what both models take, what of it is quantised, how much room is left for sequences."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from html import escape
from typing import Any

import gradio as gr

from myserve_ui.core.model_info import EngineStatus, ModelInfo
from myserve_ui.errors import MyServeError
from myserve_ui.evaluation.comparisons import Comparisons
from myserve_ui.ui.compare_panes import UNKNOWN, model_label
from myserve_ui.ui.compare_run import QUIET, problem
from myserve_ui.ui.formatting import MIB, load_line
from myserve_ui.ui.heartbeat import with_heartbeat

LENGTHS = (256, 1024, 4096)
"""Lengths of the sequences that are told how many of fit."""


class MemoryPanel:
    """A table of both models; weights that are not loaded are loaded when it is asked for."""

    def __init__(self, comparisons: Comparisons, base: gr.Dropdown, candidate: gr.Dropdown) -> None:
        self._comparisons = comparisons
        self._base = base
        self._candidate = candidate

    def draw(self) -> None:
        """Draw into the open layout and wire."""
        self._start = gr.Button("Show memory", variant="primary", elem_id="memory-start", scale=0, min_width=140)
        self._table = gr.HTML("", elem_id="memory-table", padding=False)
        self._start.click(self.on_start, [self._base, self._candidate], self._table, concurrency_limit=None, **QUIET)

    async def on_start(self, base: str, candidate: str) -> AsyncGenerator[Any, None]:
        """Load both, in sight, then tell what they take."""
        try:
            names = self._comparisons.pair(base or "", candidate or "")
            async for words in self._loading(names):
                yield words
            infos = [self._comparisons.chat.model(name) for name in names]
            engines = {engine.model: engine for engine in self._comparisons.chat.status().engines}
            yield memory_view([(info, engines.get(info.id)) for info in infos])
        except MyServeError as error:
            yield problem(error.message)

    async def _loading(self, names: tuple[str, str]) -> AsyncGenerator[Any, None]:
        for name in names:
            async for progress in with_heartbeat(_generator(self._comparisons.chat.load(name))):
                yield gr.skip() if progress is None else f'<p class="working">{escape(load_line(progress))}</p>'


async def _generator(items: Any) -> AsyncGenerator[Any, None]:
    async for item in items:
        yield item


def memory_view(sides: list[tuple[ModelInfo, EngineStatus | None]]) -> str:
    """HTML of the table, a column for each model."""
    infos = [info for info, _ in sides]
    rows = [
        ("Weights, tied tensors once", [_mib(info.weight_bytes) for info in infos]),
        ("Parameters", [f"{info.num_parameters:,}" if info.num_parameters else UNKNOWN for info in infos]),
        (
            "Bits per parameter",
            [f"{info.bits_per_parameter:.2f}" if info.bits_per_parameter else UNKNOWN for info in infos],
        ),
        ("Computes in", [f"{info.dtype or UNKNOWN} on {info.device or UNKNOWN}" for info in infos]),
        ("Keys and values per token", [_kib(info.kv_bytes_per_token) for info in infos]),
        *(
            (f"Sequences of {length:,} tokens that fit", [_fitting(engine, length) for _, engine in sides])
            for length in LENGTHS
        ),
    ]
    head = "".join(f"<th>{escape(model_label(info))}</th>" for info in infos)
    lines = "".join(
        f"<tr><th>{name}</th>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>" for name, cells in rows
    )
    return f'<table class="numbers"><thead><tr><td></td>{head}</tr></thead><tbody>{lines}</tbody></table>'


def _mib(value: int | None) -> str:
    return f"{value / MIB:,.0f} MiB" if value else UNKNOWN


def _kib(value: int | None) -> str:
    return f"{value / 1024:,.1f} KiB" if value else UNKNOWN


def _fitting(engine: EngineStatus | None, length: int) -> str:
    return f"{engine.kv_tokens_total // length:,}" if engine else UNKNOWN
