"""The Benchmark page's questions: which models, under which load, with which prompts, against which server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import gradio as gr

from myserve_ui.bench.prompt_file import read_prompts
from myserve_ui.bench.question.form import FormValues, split_levels
from myserve_ui.core.model_info import ModelInfo
from myserve_ui.errors import InvalidRequestError
from myserve_ui.ui.shared.events import QUIET, paragraph
from myserve_ui.ui.shared.words import model_choices

Components = dict[str, gr.components.Component]
"""By the names of `BenchForm`."""
LOAD_KINDS = [
    ("closed loop: so many at once", "closed"),
    ("open loop: so many a second", "open"),
    ("ramp of so many at once", "ramp"),
    ("ramp of so many a second", "ramp-rate"),
]
ARRIVALS = [("Poisson", "poisson"), ("constant", "constant"), ("gamma", "gamma")]
LIMITS = [("server: 2 s, 100 ms a token", "server"), ("interactive: 500 ms, 30 ms", "interactive")]
LEVELS = {
    "closed": ("Requests at once", "1, 4, 16"),
    "open": ("Requests per second", "0.5, 1, 2"),
    "ramp": ("Requests at once, step by step", "1, 2, 4, 8"),
    "ramp-rate": ("Requests per second, step by step", "0.5, 1, 2, 4"),
}
SHARED = (
    "The run shares this machine with every chat: chats stay usable and slow it down, and it them. "
    "One run at a time; others wait for their turn. Answers never come from the cache of answers, "
    "and prompts begin with new words in each run, so that no earlier run's are found computed."
)


@dataclass(frozen=True, slots=True)
class BenchForm:
    """The components; field names are those of `FormValues`, but for the file."""

    models: gr.Dropdown
    load: gr.Dropdown
    levels: gr.Textbox
    requests: gr.Number
    prompt_tokens: gr.Textbox
    output_tokens: gr.Textbox
    time_limit: gr.Number
    arrivals: gr.Dropdown
    burstiness: gr.Number
    limits: gr.Dropdown
    seed: gr.Number
    salted: gr.Checkbox
    warm_up: gr.Checkbox
    shared_prefix_tokens: gr.Number
    turns: gr.Number
    prompt_file: gr.File
    url: gr.Textbox
    url_model: gr.Textbox
    api_key: gr.Textbox

    def named(self) -> Components:
        """Name -> component."""
        return {item.name: getattr(self, item.name) for item in fields(self)}

    @property
    def inputs(self) -> set[Any]:
        return set(self.named().values())

    def read(self, inputs: Mapping[Any, Any]) -> FormValues:
        """What is asked. Raises InvalidRequestError for what cannot be read."""
        values = {name: inputs[component] for name, component in self.named().items()}
        path = values.pop("prompt_file")
        values |= {name: str(values[name] or "") for name in ("levels", "url", "url_model", "api_key")}
        prompts = read_prompts(Path(path)) if path else ()
        for name in ("requests", "time_limit", "burstiness", "seed", "shared_prefix_tokens", "turns"):
            values[name] = _filled(name, values[name])
        return FormValues(
            **values | {"models": tuple(values["models"] or ()), "levels": split_levels(values["levels"])},
            prompts=prompts,
            prompts_from=Path(path).name if path else "",
        )


def draw_form(models: Sequence[ModelInfo], default: str, *, may_leave: bool) -> BenchForm:
    """Draw the questions into the open layout. `may_leave`: whether other servers may be measured from here."""
    parts = {**_draw_load(models, default), **_draw_sizes()}
    with gr.Accordion("More settings", open=False, elem_id="bench-more"):
        parts |= _draw_more()
    parts |= _draw_other(may_leave=may_leave)
    gr.HTML(paragraph("fine", SHARED), padding=False)
    form = BenchForm(**parts)
    form.load.change(_levels_of, form.load, [form.levels, form.arrivals], queue=False, **QUIET)
    form.arrivals.change(_burstiness_of, form.arrivals, form.burstiness, queue=False, **QUIET)
    return form


def _draw_load(models: Sequence[ModelInfo], default: str) -> Components:
    with gr.Row(elem_classes="questions"):
        chosen = gr.Dropdown(
            model_choices(models),
            value=[default],
            multiselect=True,
            label="Models and precisions",
            info="several get the same arrivals, prompts and lengths",
            elem_id="bench-models",
            scale=2,
            min_width=260,
        )
        load = gr.Dropdown(
            LOAD_KINDS, value="closed", label="Load", info="who sets the pace", filterable=False, elem_id="bench-load"
        )
        label, levels = LEVELS["closed"]
        level_box = gr.Textbox(levels, label=label, info="a run for each", max_lines=1, elem_id="bench-levels")
    return {"models": chosen, "load": load, "levels": level_box}


def _draw_sizes() -> Components:
    with gr.Row(elem_classes="questions"):
        return {
            "requests": gr.Number(
                16, precision=0, label="Requests", info="for each model and load", elem_id="bench-requests"
            ),
            "prompt_tokens": _length_box("Prompt tokens", "bench-prompt"),
            "output_tokens": _length_box("Answer tokens", "bench-answer"),
            "time_limit": gr.Number(600, label="Time limit, s", info="ends everything", elem_id="bench-time-limit"),
        }


def _length_box(label: str, name: str) -> gr.Textbox:
    return gr.Textbox("32", label=label, info="fixed, or low:high", max_lines=1, elem_id=name)


def _draw_more() -> Components:
    with gr.Row(elem_classes="questions"):
        arrivals = gr.Dropdown(
            ARRIVALS, value="poisson", label="Arrivals", info="of rates", filterable=False, interactive=False
        )
        burstiness = gr.Number(1.0, label="Shape", info="of gamma; 1 is Poisson", interactive=False)
        limits = gr.Dropdown(
            LIMITS,
            value="server",
            label="Good is",
            info="or ms of TTFT, TPOT, E2E: 500,30,-",
            allow_custom_value=True,
            elem_id="bench-limits",
        )
        seed = gr.Number(0, precision=0, label="Seed", info="equal seeds ask alike")
    with gr.Row(elem_classes="questions"):
        shared = gr.Number(0, precision=0, label="Shared prefix", info="tokens at every prompt's start")
        turns = gr.Number(1, precision=0, label="Turns", info="of one conversation")
        salted = gr.Checkbox(
            True, label="Salt", info="first words that are new in each run: no cache knows them", elem_id="bench-salted"
        )
        warm_up = gr.Checkbox(True, label="Warm up", info="at the load's own size, not counted")
    prompts = gr.File(
        label="Prompts: one a line, or ShareGPT-like JSON",
        file_types=[".txt", ".json", ".jsonl"],
        type="filepath",
        height=110,
        elem_id="bench-prompts",
    )
    return {
        "arrivals": arrivals,
        "burstiness": burstiness,
        "limits": limits,
        "seed": seed,
        "salted": salted,
        "shared_prefix_tokens": shared,
        "turns": turns,
        "warm_up": warm_up,
        "prompt_file": prompts,
    }


def _draw_other(*, may_leave: bool) -> Components:
    with (
        gr.Accordion("Another server beside these models", open=False, elem_id="bench-other", visible=may_leave),
        gr.Row(elem_classes="questions"),
    ):
        return {
            "url": gr.Textbox(
                label="URL",
                placeholder="http://127.0.0.1:8000/v1",
                info="OpenAI-compatible; clear the models above to measure it alone",
                max_lines=1,
                elem_id="bench-url",
                scale=2,
            ),
            "url_model": gr.Textbox(
                label="Its model", info="as it calls it; empty: its first", max_lines=1, elem_id="bench-url-model"
            ),
            "api_key": gr.Textbox(
                label="Its key", type="password", info="never kept and never shown", elem_id="bench-key"
            ),
        }


def _levels_of(load: str) -> list[Any]:
    label, levels = LEVELS.get(load, LEVELS["closed"])
    is_rate = load in ("open", "ramp-rate")
    return [gr.update(label=label, value=levels), gr.update(interactive=is_rate)]


def _burstiness_of(arrivals: str) -> Any:
    """Only gamma has a shape of its own."""
    return gr.update(interactive=arrivals == "gamma")


def _filled(name: str, value: Any) -> Any:
    if value is None:
        raise InvalidRequestError(f"{name} is empty. Type a number.", param=name)
    return value
