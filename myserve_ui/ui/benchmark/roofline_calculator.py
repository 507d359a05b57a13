"""Sizes a device for any model: type a config, or take a known one, and see what a decode step takes at least."""

from __future__ import annotations

from typing import Any

import gradio as gr
from markupsafe import Markup

from myserve_ui.bench.roofline.calculator import ModelShape, calculate_roofline, parse_count
from myserve_ui.bench.roofline.device_table import DEVICES, Device, find_device
from myserve_ui.bench.roofline.documents import CalculatedRoofline
from myserve_ui.core.number_words import UNKNOWN, decimal, kib, percent
from myserve_ui.errors import InvalidRequestError
from myserve_ui.ui.benchmark.roofline_card import ceilings
from myserve_ui.ui.shared.events import QUIET, paragraph, problem
from myserve_ui.ui.shared.templates import render

KNOWN_MODELS: dict[str, tuple[str, int, int, int]] = {
    "SmolLM2-135M": ("134.5M", 30, 3, 64),
    "Qwen2.5-0.5B": ("494M", 24, 2, 64),
    "Qwen2.5-7B": ("7.62B", 28, 4, 128),
    "Llama-3.1-8B": ("8.03B", 32, 8, 128),
    "Qwen2.5-32B": ("32.8B", 64, 8, 128),
    "Llama-3.1-70B": ("70.6B", 80, 8, 128),
}
"""Parameters, layers, heads of keys and values, width of a head: as their config.json says."""
OWN = "my own numbers"
FIRST_MODEL, FIRST_DEVICE = "Llama-3.1-8B", "RTX 4090"
WEIGHT_BITS = [("32 bits", 32.0), ("16 bits", 16.0), ("8 bits", 8.0), ("nf4, 4.5 bits", 4.5), ("int4, 4.25 bits", 4.25)]
INTRODUCTION = (
    "The same arithmetic for any model and device, from numbers alone. Datasheets promise more than is reached: 80 to "
    "90 % of the bandwidth is usual."
)


class CalculatorPanel:
    """Numbers in, a card out, anew at every change. Holds nothing."""

    def draw(self) -> None:
        """Draw into the open layout and wire."""
        gr.HTML(paragraph("lead", INTRODUCTION), padding=False)
        model, shape = _draw_model()
        device, machine = _draw_device()
        inputs = [*shape, *machine]
        card = gr.HTML(calculate(*(box.value for box in inputs)), elem_id="calculator-card", padding=False)
        gr.HTML(devices_view(), padding=False)
        model.input(_shape_of, model, shape[:4], queue=False, **QUIET)
        device.input(_machine_of, device, machine[:4], queue=False, **QUIET)
        changes = [box.change for box in inputs]
        gr.on(changes, calculate, inputs, card, queue=False, trigger_mode="always_last", **QUIET)


def _draw_model() -> tuple[gr.Dropdown, list[Any]]:
    parameters, layers, heads, width = KNOWN_MODELS[FIRST_MODEL]
    with gr.Row(elem_classes="questions"):
        model = gr.Dropdown(
            [*KNOWN_MODELS, OWN], value=FIRST_MODEL, label="Model", info="fills in its config", elem_id="known-model"
        )
        boxes = [
            gr.Textbox(
                parameters, label="Parameters", info="such as 135M or 8B", max_lines=1, elem_id="calc-parameters"
            ),
            gr.Number(layers, precision=0, label="Layers", info="num_hidden_layers"),
            gr.Number(heads, precision=0, label="KV heads", info="num_key_value_heads"),
            gr.Number(width, precision=0, label="Head width", info="head_dim"),
            gr.Dropdown(WEIGHT_BITS, value=16.0, label="Weights", info="with their scales", elem_id="calc-bits"),
            gr.Dropdown([("16 bits", 16.0), ("32 bits", 32.0), ("8 bits", 8.0)], value=16.0, label="Cache", info="KV"),
        ]
    return model, boxes


def _draw_device() -> tuple[gr.Dropdown, list[Any]]:
    first = find_device(FIRST_DEVICE)
    with gr.Row(elem_classes="questions"):
        device = gr.Dropdown(
            [*(known.name for known in DEVICES), OWN],
            value=first.name,
            label="Device",
            info="fills in its datasheet",
            elem_id="known-device",
        )
        boxes = [
            gr.Textbox(first.name, visible=False),
            gr.Number(first.gb_per_s, label="Bandwidth, GB/s", info="memory, read", elem_id="calc-bandwidth"),
            gr.Number(first.memory_gb, label="Memory, GB", info="of the device"),
            gr.Number(first.teraflops, label="TFLOP/s", info="16 bits, dense; may be empty"),
            gr.Number(1024, precision=0, label="Context", info="tokens of each sequence"),
        ]
    return device, boxes


def calculate(
    parameters: str,
    layers: float | None,
    heads: float | None,
    width: float | None,
    weight_bits: float,
    kv_bits: float,
    name: str,
    bandwidth: float | None,
    memory: float | None,
    teraflops: float | None,
    context: float | None,
) -> Markup:
    """HTML of the card, or of the sentence about a number that cannot be."""
    try:
        shape = ModelShape(
            parse_count(str(parameters or "")),
            int(layers or 0),
            int(heads or 0),
            int(width or 0),
            weight_bits=float(weight_bits),
            kv_bits=float(kv_bits),
        )
        device = Device(str(name), float(memory or 0), float(bandwidth or 0), teraflops or None, _source_of(name))
        return calculation_view(calculate_roofline(shape, device, context=int(context or 0)))
    except InvalidRequestError as error:
        return problem(error.message)


def calculation_view(roofline: CalculatedRoofline) -> Markup:
    """HTML of a roofline from numbers alone."""
    room = f"{roofline.kv_budget_bytes / 1e9:,.1f} GB"
    facts = [
        ("weights", f"{roofline.weight_bytes / 1e9:,.2f} GB"),
        ("keys and values of a token", kib(roofline.kv_bytes_per_token)),
        ("memory", f"{roofline.memory_bytes / 1e9:,.0f} GB, {percent(roofline.usable_share)} of it usable"),
        ("left for keys and values", room if roofline.weights_fit else "none: the weights do not fit"),
        *((f"sequences of {fit.length:,} tokens that fit", f"{fit.sequences:,}") for fit in roofline.fits),
        ("source of the device's numbers", roofline.source),
    ]
    lacking = problem("The weights alone do not fit this device: fewer bits, or more memory.")
    return render(
        "benchmark/calculation",
        problem="" if roofline.weights_fit else lacking,
        headline=_headline(roofline),
        rows=ceilings(roofline.rows),
        facts=facts,
    )


def _headline(roofline: CalculatedRoofline) -> list[tuple[str, str]]:
    floor, *rows = roofline.rows
    crossing = roofline.crossing_batch
    return [
        ("floor of a decode step", f"{decimal(floor.bound_ms)} ms"),
        *((f"tokens/s at most, batch {row.batch}", decimal(row.tokens_per_s)) for row in rows),
        ("arithmetic is the limit from", f"batch {crossing}" if crossing else UNKNOWN),
    ]


def devices_view() -> Markup:
    """HTML of the known devices with the sources of their numbers, folded away."""
    return render("benchmark/devices", devices=DEVICES)


def _source_of(name: str) -> str:
    return next((device.source for device in DEVICES if device.name == name), "typed here")


def _shape_of(model: str) -> list[Any]:
    """What a known model's config says; own numbers stay as they are."""
    return list(KNOWN_MODELS.get(model) or [gr.skip()] * 4)


def _machine_of(name: str) -> list[Any]:
    """What a known device's datasheet says; own numbers stay as they are."""
    known = next((device for device in DEVICES if device.name == name), None)
    return [name, *([known.gb_per_s, known.memory_gb, known.teraflops] if known else [gr.skip()] * 3)]
