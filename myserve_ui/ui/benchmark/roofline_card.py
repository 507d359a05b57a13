"""What a model could do at most on this machine, before anything is run: a card of numbers from one measurement."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from html import escape
from typing import Any

import gradio as gr

from myserve_ui.bench.benchmark_service import BenchmarkService
from myserve_ui.core.number_words import MIB, PRECISION_WORDS
from myserve_ui.errors import MyServeError
from myserve_ui.ui.benchmark.tables import decimal
from myserve_ui.ui.benchmark.words import UNKNOWN
from myserve_ui.ui.shared.events import QUIET, problem
from myserve_ui.ui.shared.number_table import Facts, facts_list, number_table, tiles
from myserve_ui.ui.shared.streams import with_heartbeat
from myserve_ui.ui.shared.words import model_choices

MEASURING = (
    '<p class="working">Loading the model if need be, then measuring how fast this machine reads and multiplies…</p>'
)
INTRODUCTION = (
    '<p class="lead">A decode step reads every weight once and the cache of every sequence. The larger of the time to '
    "read and the time to multiply is the least it can take; nothing that is measured can be quicker.</p>"
)
EMPTY = '<p class="empty">Not measured yet. It takes about two seconds, on every core.</p>'
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
        gr.HTML(INTRODUCTION, padding=False)
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
        card = gr.HTML(EMPTY, elem_id="roofline-card", padding=False)
        measure.click(self.on_measure, model, card, concurrency_limit=None, trigger_mode="once", **QUIET)

    async def on_measure(self, model: str) -> AsyncGenerator[Any, None]:
        """The card, with signs of life while a model loads."""
        yield MEASURING
        try:
            async for document in with_heartbeat(self._documents(model)):
                yield gr.skip() if document is None else card_view(document)
        except MyServeError as error:
            yield problem(error.message)

    async def _documents(self, model: str) -> AsyncGenerator[dict[str, Any], None]:
        yield await self._service.roofline_anew(model or "")


def card_view(document: Mapping[str, Any]) -> str:
    """HTML of a `roofline` document."""
    precision = str(document.get("precision") or "")
    title = f"{PRECISION_WORDS.get(precision, precision)} · {document['dtype']} on {document['device']}"
    return (
        f'<section class="roofline" aria-label="Roofline of {escape(str(document.get("model")))}">'
        f"<h3>{escape(str(document.get('model')))}</h3><p class='fine'>{escape(title)}</p>"
        f"{tiles(headline_facts(document))}{ceilings(document['rows'])}{facts_list(_facts(document))}"
        f'<p class="fine">{HOW}</p></section>'
    )


def headline_facts(document: Mapping[str, Any]) -> Facts:
    """The four numbers to remember."""
    floor = document["rows"][0]
    return [
        ("measured bandwidth", f"{decimal(document['bandwidth_bytes_per_s'] / 1e9)} GB/s"),
        ("measured matrix rate", f"{decimal(document['flops_per_s'] / 1e9)} GFLOP/s"),
        ("floor of a decode step", f"{decimal(floor['bound_ms'])} ms"),
        ("arithmetic is the limit from", _batch(document.get("crossing_batch"))),
    ]


def _facts(document: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    yield "weights", f"{document['weight_bytes'] / MIB:,.0f} MiB"
    yield "moved for them in a step", f"{document['bytes_per_step'] / MIB:,.0f} MiB"
    yield "parameters", f"{document['num_parameters']:,}"
    yield "keys and values of a token", f"{document['kv_bytes_per_token'] / 1024:,.1f} KiB"
    if (budget := document.get("kv_budget_bytes")) is not None:
        yield "memory for keys and values", f"{budget / MIB:,.0f} MiB"
    for fit in document.get("fits") or ():
        yield f"sequences of {fit['length']:,} tokens that fit", f"{fit['sequences']:,}"


def ceilings(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows of a `roofline` document as a table."""
    lines = (
        f"<tr><th>{row['batch']}</th><td>{row['context']:,}</td><td>{decimal(row['bound_ms'])}</td>"
        f"<td>{decimal(row['tokens_per_s'])}</td><td>{escape(row['bound_by'])}</td></tr>"
        for row in rows
    )
    return number_table(("batch", "context", "step ≥ ms", "tok/s ≤", "bound by"), lines)


def _batch(batch: int | None) -> str:
    return UNKNOWN if batch is None else f"batch {batch}"
