"""The settings sidebar: which model, what it is told first, and how its words are chosen."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import gradio as gr

from myserve_ui.core.sampling_params import SamplingParams
from myserve_ui.errors import InvalidRequestError
from myserve_ui.ui.shared.events import QUIET, Updates
from myserve_ui.ui.shared.verbatim import well_formed

SEED_BELOW = 2**31
"""Seeds that the page draws; short enough to type again."""

LARGEST = 2**53 - 1
"""Whole numbers beyond are not exact in a browser."""

PRESETS: dict[str, dict[str, float]] = {
    "Precise": {"temperature": 0.2, "top_p": 0.9, "top_k": 40, "min_p": 0.0},
    "Balanced": {"temperature": 0.7, "top_p": 0.95, "top_k": 0, "min_p": 0.05},
    "Creative": {"temperature": 1.1, "top_p": 1.0, "top_k": 0, "min_p": 0.05},
    "Greedy": {"temperature": 0.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0},
}
CUSTOM = "Custom"
DEFAULT_PRESET = "Greedy"
"""The default model's makers advise 0.2; in the 4 bits of its file, one answer in three then goes astray at once."""


@dataclass(frozen=True, slots=True)
class Controls:
    """The sidebar's components; field names are the names they are saved under."""

    model: gr.Dropdown
    system_prompt: gr.Textbox
    preset: gr.Dropdown
    temperature: gr.Slider
    top_p: gr.Slider
    top_k: gr.Number
    min_p: gr.Slider
    max_tokens: gr.Slider
    seed: gr.Textbox
    stop: gr.Textbox

    def named(self) -> dict[str, gr.components.Component]:
        """Name -> component."""
        return {item.name: getattr(self, item.name) for item in fields(self)}

    def values(self, inputs: Mapping[Any, Any]) -> dict[str, object]:
        """Name -> value, from the inputs of an event; what is typed as it can be shown."""
        values = {name: inputs[component] for name, component in self.named().items()}
        return {name: well_formed(value) if isinstance(value, str) else value for name, value in values.items()}

    def restore(self, saved: Mapping[str, object]) -> Updates:
        """Component -> value, for what was saved and can still be chosen; the rest stays as it is."""
        named = self.named()
        return {named[name]: value for name, value in saved.items() if name in named and _fits(named[name], value)}


def draw_controls(choices: list[tuple[str, str]], model: str, *, max_tokens: int) -> Controls:
    """Draw the sidebar's components into the open layout and wire the presets."""
    controls = Controls(
        model=gr.Dropdown(choices, value=model, label="Model and precision", elem_id="model", filterable=False),
        system_prompt=gr.Textbox(
            label="System prompt", placeholder="You are a helpful assistant.", lines=2, max_lines=8, elem_id="system"
        ),
        preset=gr.Dropdown(
            [*PRESETS, CUSTOM], value=DEFAULT_PRESET, label="Sampling preset", elem_id="preset", filterable=False
        ),
        **_draw_sampling(),
        max_tokens=gr.Slider(
            1, max_tokens, value=min(512, max_tokens), step=1, label="Max tokens", info="longest answer"
        ),
        seed=gr.Textbox(label="Seed", placeholder="random", info="empty: a new one for each answer", elem_id="seed"),
        stop=gr.Textbox(
            label="Stop strings",
            info="one per line, at most 4; \\n stands for a newline",
            lines=1,
            elem_id="stop-strings",
        ),
    )
    _wire_presets(controls)
    return controls


def read_params(values: Mapping[str, object]) -> SamplingParams:
    """Sampling parameters of the sidebar's values; an empty seed is drawn here, so that it can be shown.

    Raises InvalidRequestError for a value out of range.
    """
    return SamplingParams(
        temperature=_number("temperature", values["temperature"]),
        top_p=_number("top_p", values["top_p"]),
        top_k=int(_number("top_k", values["top_k"])),
        min_p=_number("min_p", values["min_p"]),
        seed=read_seed(values["seed"]),
        max_tokens=int(_number("max_tokens", values["max_tokens"])),
        stop=tuple(line.replace("\\n", "\n") for line in str(values["stop"] or "").split("\n") if line),
    )


def _draw_sampling() -> dict[str, gr.components.Component]:
    start = PRESETS[DEFAULT_PRESET]
    with gr.Accordion("Sampling", open=False):
        return {
            "temperature": gr.Slider(
                0, 2, value=start["temperature"], step=0.05, label="Temperature", info="0 takes the likeliest token"
            ),
            "top_p": gr.Slider(0, 1, value=start["top_p"], step=0.01, label="Top p"),
            "top_k": gr.Number(value=start["top_k"], precision=0, minimum=0, label="Top k", info="0 is off"),
            "min_p": gr.Slider(0, 1, value=start["min_p"], step=0.01, label="Min p"),
        }


def _wire_presets(controls: Controls) -> None:
    """A preset moves the sliders; moving a slider by hand makes the preset Custom, at once and in the page."""
    sliders = [controls.temperature, controls.top_p, controls.top_k, controls.min_p]
    controls.preset.input(_preset_values, controls.preset, sliders, queue=False, **QUIET)
    gr.on(
        [slider.input for slider in sliders],
        None,
        None,
        controls.preset,
        js=f"() => '{CUSTOM}'",
        api_visibility="private",
    )


def _fits(component: Any, value: object) -> bool:
    """Whether the component can show the value: whoever wrote a file may have written anything."""
    if isinstance(component, gr.Dropdown):
        return isinstance(value, str) and value in {choice for _label, choice in component.choices}
    if isinstance(component, gr.Slider | gr.Number):
        return isinstance(value, int | float) and not isinstance(value, bool) and _is_within(component, value)
    return isinstance(value, str)


def _is_within(component: gr.Slider | gr.Number, value: float) -> bool:
    low = component.minimum if component.minimum is not None else -LARGEST
    high = component.maximum if component.maximum is not None else LARGEST
    return bool(low <= value <= high)


def _preset_values(preset: str) -> list[Any]:
    values = PRESETS.get(preset)
    return list(values.values()) if values else [gr.skip()] * 4


def read_seed(value: object) -> int:
    """A typed seed, or a new one for an empty box. Raises InvalidRequestError for anything else."""
    text = str(value or "").strip()
    if not text:
        return secrets.randbelow(SEED_BELOW)
    try:
        return int(text)
    except ValueError:
        raise InvalidRequestError(f"seed must be a whole number or empty, got {text:.40}.", param="seed") from None


def _number(name: str, value: object) -> float:
    if not isinstance(value, int | float | str):
        raise InvalidRequestError(f"{name} is empty. Type a number, or choose a preset.", param=name)
    return float(value)
