"""What a model could do at most on this machine, before anything is run: a card of numbers from one measurement."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence
from typing import Any

import gradio as gr
from markupsafe import Markup

from myserve_ui.bench.benchmark_service import BenchmarkService
from myserve_ui.bench.roofline.documents import Ceiling, ServedRoofline
from myserve_ui.core.number_words import UNKNOWN, decimal, kib, mib, precision_words
from myserve_ui.errors import MyServeError
from myserve_ui.ui.shared.events import QUIET, paragraph, problem
from myserve_ui.ui.shared.streams import with_heartbeat
from myserve_ui.ui.shared.templates import render
from myserve_ui.ui.shared.words import model_choices

MEASURING = "Loading the model if need be, then measuring how fast this machine reads and multiplies…"
INTRODUCTION = (
    "A decode step reads every weight once and the cache of every sequence. The larger of the time to read and the "
    "time to multiply is the least it can take; nothing that is measured can be quicker."
)
EMPTY = "Not measured yet. It takes about two seconds, on every core."
HOW = (
    "Read bandwidth over a buffer far larger than the last cache; matrix rate of one large product in the compute "
    "dtype; of several measurements the best counts, as others were disturbed. Weights that a kernel first expands are "
    "counted with what it writes and reads again."
)


class RooflineCard:
    """A model to choose, a button, the card."""

    def __init__(self, service: BenchmarkService) -> None:
        self._service = service

    def draw(self) -> None:
        """Draw into the open layout and wire."""
        models = self._service.models()
        gr.HTML(paragraph("lead", INTRODUCTION), padding=False)
        with gr.Row(elem_classes="asking"):
            model = gr.Dropdown(
                model_choices(models),
                value=models[0].id,
                label="Model and precision",
                filterable=False,
                elem_id="roofline-model",
                min_width=220,
            )
            measure = gr.Button("Measure", variant="primary", elem_id="roofline-measure", scale=0, min_width=120)
        card = gr.HTML(paragraph("empty", EMPTY), elem_id="roofline-card", padding=False)
        measure.click(self.on_measure, model, card, concurrency_limit=None, trigger_mode="once", **QUIET)

    async def on_measure(self, model: str) -> AsyncGenerator[Any, None]:
        """The card, with signs of life while a model loads."""
        yield paragraph("working", MEASURING)
        try:
            async for document in with_heartbeat(self._documents(model)):
                yield gr.skip() if document is None else card_view(document)
        except MyServeError as error:
            yield problem(error.message)

    async def _documents(self, model: str) -> AsyncGenerator[ServedRoofline, None]:
        yield await self._service.roofline_anew(model or "")


def card_view(roofline: ServedRoofline) -> Markup:
    """HTML of what a model could do at most on this machine."""
    return render(
        "benchmark/roofline",
        model=roofline.model,
        circumstances=f"{precision_words(roofline.precision)} · {roofline.dtype} on {roofline.device}",
        headline=headline_facts(roofline),
        rows=ceilings(roofline.rows),
        facts=_facts(roofline),
        how=HOW,
    )


def headline_facts(roofline: ServedRoofline) -> list[tuple[str, str]]:
    """The four numbers to remember."""
    rate, crossing = roofline.flops_per_s, roofline.crossing_batch
    return [
        ("measured bandwidth", f"{decimal(roofline.bandwidth_bytes_per_s / 1e9)} GB/s"),
        ("measured matrix rate", f"{decimal(rate / 1e9)} GFLOP/s" if rate else UNKNOWN),
        ("floor of a decode step", f"{decimal(roofline.rows[0].bound_ms)} ms"),
        ("arithmetic is the limit from", UNKNOWN if crossing is None else f"batch {crossing}"),
    ]


def _facts(roofline: ServedRoofline) -> Iterable[tuple[str, str]]:
    yield "weights", mib(roofline.weight_bytes)
    yield "moved for them in a step", mib(roofline.bytes_per_step)
    yield "parameters", f"{roofline.num_parameters:,}"
    yield "keys and values of a token", kib(roofline.kv_bytes_per_token)
    if roofline.kv_budget_bytes is not None:
        yield "memory for keys and values", mib(roofline.kv_budget_bytes)
    for room in roofline.fits:
        yield f"sequences of {room.length:,} tokens that fit", f"{room.sequences:,}"


def ceilings(rows: Sequence[Ceiling]) -> list[tuple[str, ...]]:
    """The bound of a step for each batch and context, as cells of a table."""
    return [
        (str(row.batch), f"{row.context:,}", decimal(row.bound_ms), decimal(row.tokens_per_s), row.bound_by)
        for row in rows
    ]
