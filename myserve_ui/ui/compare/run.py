"""Side by side on the Compare page: one prompt to two models, their answers as they come, then the evidence."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, fields
from typing import Any

import gradio as gr

from myserve_ui.core.requests import ChatRequest, Message
from myserve_ui.core.sampling_params import SamplingParams
from myserve_ui.errors import InvalidRequestError, MyServeError
from myserve_ui.evaluation.comparison_document import Comparison
from myserve_ui.evaluation.comparisons import MAX_ANSWER_TOKENS, Comparisons, ComparisonStep
from myserve_ui.serving.compare_service import CompareRequest, CompareUpdate, Side, Timing
from myserve_ui.ui.compare.evidence import evidence_view
from myserve_ui.ui.compare.panes import pane, stopped
from myserve_ui.ui.shared.assets import evidence_script
from myserve_ui.ui.shared.controls import read_seed
from myserve_ui.ui.shared.events import DOWNLOAD, QUIET, UNEXPECTED, Updates, paragraph, problem, wire_stop
from myserve_ui.ui.shared.streams import FRAME_SECONDS, with_heartbeat
from myserve_ui.ui.shared.words import load_line

logger = logging.getLogger(__name__)

TIMING_CHOICES = [("one after the other", Timing.IN_TURN.value), ("both at once", Timing.TOGETHER.value)]
DEFAULT_TOKENS = 96
EXPLAINING = "Scoring both answers with both models…"


@dataclass(frozen=True, slots=True)
class RunParts:
    """The components of a comparison; field names are what they are called in the code only."""

    base: gr.Dropdown
    candidate: gr.Dropdown
    prompt: gr.Textbox
    system: gr.Textbox
    greedy: gr.Checkbox
    temperature: gr.Slider
    seed: gr.Textbox
    max_tokens: gr.Slider
    timing: gr.Radio
    start: gr.Button
    stop: gr.Button
    panes: dict[Side, gr.HTML]
    findings: gr.HTML
    document: gr.JSON
    save: gr.Button

    @property
    def inputs(self) -> set[Any]:
        names = ("base", "candidate", "prompt", "system", "greedy", "temperature", "seed", "max_tokens", "timing")
        return {getattr(self, item.name) for item in fields(self) if item.name in names}

    @property
    def outputs(self) -> list[Any]:
        return [self.start, self.stop, *self.panes.values(), self.findings, self.document, self.save]


def draw_run(comparisons: Comparisons, base: gr.Dropdown, candidate: gr.Dropdown) -> RunParts:
    """Draw the prompt, the settings and both panes into the open layout."""
    with gr.Row(elem_id="compare-ask"):
        prompt = gr.Textbox(
            label="Prompt",
            show_label=False,
            placeholder="One prompt for both. Enter starts, Shift+Enter is a new line.",
            lines=1,
            max_lines=6,
            elem_id="compare-prompt",
            scale=1,
        )
        start = gr.Button("Compare", variant="primary", elem_id="compare-start", scale=0, min_width=110)
        stop = gr.Button("Stop", variant="stop", visible=False, elem_id="compare-stop", scale=0, min_width=110)
    settings = _draw_settings()
    infos = {side: comparisons.chat.model(box.value) for side, box in zip(Side, (base, candidate), strict=True)}
    with gr.Row(elem_id="panes"):
        panes = {side: gr.HTML(pane(side, infos[side]), elem_id=f"pane-{side.value}", padding=False) for side in Side}
    findings = gr.HTML("", elem_id="findings", padding=False, js_on_load=evidence_script())
    document = gr.JSON(visible=False)
    save = gr.Button("Save as JSON", size="sm", visible=False, elem_id="compare-save", scale=0, min_width=120)
    return RunParts(
        base,
        candidate,
        prompt,
        **settings,
        start=start,
        stop=stop,
        panes=panes,
        findings=findings,
        document=document,
        save=save,
    )


def _draw_settings() -> dict[str, gr.components.Component]:
    with gr.Accordion("Settings of both", open=False, elem_id="compare-settings"):
        system = gr.Textbox(label="System prompt", lines=1, max_lines=4, elem_id="compare-system")
        with gr.Row():
            greedy = gr.Checkbox(True, label="Greedy", info="always the likeliest token", elem_id="compare-greedy")
            temperature = gr.Slider(0, 2, value=0.7, step=0.05, label="Temperature", info="where not greedy")
            seed = gr.Textbox(label="Seed", placeholder="random, the same for both", elem_id="compare-seed")
            max_tokens = gr.Slider(1, MAX_ANSWER_TOKENS, value=DEFAULT_TOKENS, step=1, label="Max tokens")
        timing = gr.Radio(
            TIMING_CHOICES,
            value=Timing.IN_TURN.value,
            label="Timing",
            info="one after the other gives clean speeds; both at once shares the machine",
            elem_id="compare-timing",
        )
    names = ("system", "greedy", "temperature", "seed", "max_tokens", "timing")
    return dict(zip(names, (system, greedy, temperature, seed, max_tokens, timing), strict=True))


class CompareRun:
    """The handlers. Holds services and components, nothing of any visitor."""

    def __init__(
        self, comparisons: Comparisons, parts: RunParts, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._comparisons = comparisons
        self._parts = parts
        self._clock = clock

    def wire(self) -> None:
        """Connect the events; Stop and Esc end both sides."""
        parts = self._parts
        run = gr.on(
            [parts.start.click, parts.prompt.submit],
            self.on_start,
            parts.inputs,
            parts.outputs,
            concurrency_limit=None,
            trigger_mode="once",
            **QUIET,
        )
        wire_stop(parts.stop, run, self.on_stop, inputs=set(parts.panes.values()), outputs=parts.outputs)
        parts.save.click(None, parts.document, None, js=DOWNLOAD, **QUIET)

    async def on_start(self, inputs: Mapping[Any, Any]) -> AsyncGenerator[Updates, None]:
        """Run one comparison. Whatever goes wrong ends in a sentence, and the prompt stays in its box."""
        parts = self._parts
        try:
            request = self._request(inputs)
            yield self._begun(request)
            async with aclosing(self._frames(request)) as updates:
                async for update in updates:
                    yield update
        except MyServeError as error:
            yield self._ended() | {parts.findings: problem(error.message)}
        except Exception:
            logger.exception("a comparison failed")
            yield self._ended() | {parts.findings: problem(UNEXPECTED)}

    def on_stop(self, inputs: Mapping[Any, Any]) -> Updates:
        """Keep what both sides have."""
        panes = {box: stopped(inputs[box] or "") for box in self._parts.panes.values()}
        return self._ended() | panes | {self._parts.findings: ""}

    def _request(self, inputs: Mapping[Any, Any]) -> CompareRequest:
        """Raises InvalidRequestError for an empty prompt, or a setting out of range."""
        parts = self._parts
        prompt = str(inputs[parts.prompt] or "")
        if not prompt.strip():
            raise InvalidRequestError("The prompt is empty. Type what both should answer.")
        system = str(inputs[parts.system] or "")
        said = [Message("system", system)] if system.strip() else []
        params = SamplingParams(
            temperature=0.0 if inputs[parts.greedy] else float(inputs[parts.temperature]),
            seed=read_seed(inputs[parts.seed]),
            max_tokens=_asked_length(inputs[parts.max_tokens]),
        )
        return CompareRequest(
            ChatRequest((*said, Message("user", prompt)), params=params, default_max_tokens=DEFAULT_TOKENS),
            base=inputs[parts.base] or "",
            candidate=inputs[parts.candidate] or "",
            timing=Timing(inputs[parts.timing]),
        )

    async def _frames(self, request: CompareRequest) -> AsyncGenerator[Updates, None]:
        """The page's updates at a reader's pace; what ends or begins something is never left out."""
        shown_at = float("-inf")
        steps = self._comparisons.compare(request)
        async with aclosing(with_heartbeat(steps)) as items:
            async for step in items:
                if step is None:
                    yield {self._parts.stop: gr.skip()}
                elif _is_news(step) or self._clock() - shown_at >= FRAME_SECONDS:
                    shown_at = self._clock()
                    yield self._shown(step)

    def _shown(self, step: ComparisonStep) -> Updates:
        parts = self._parts
        if step.document is not None:
            document = _file(step.document)
            found = {parts.findings: evidence_view(step.document), parts.document: document}
            return self._ended() | self._panes(step.update) | found | {parts.save: gr.update(visible=True)}
        findings = {parts.findings: paragraph("working", EXPLAINING)} if step.is_explaining else {}
        return self._panes(step.update) | findings

    def _panes(self, update: CompareUpdate) -> Updates:
        return {self._parts.panes[side]: self._pane(side, update) for side in _changed(update)}

    def _pane(self, side: Side, update: CompareUpdate) -> str:
        answer, loading = update.answers[side], update.loading
        status = load_line(loading) if loading and loading.model == answer.model else ""
        return pane(side, self._comparisons.chat.model(answer.model), answer, status=status)

    def _begun(self, request: CompareRequest) -> Updates:
        parts = self._parts
        names = self._comparisons.pair(request.base, request.candidate)
        panes = {
            parts.panes[side]: pane(side, self._comparisons.chat.model(name), status="waiting")
            for side, name in zip(Side, names, strict=True)
        }
        hidden = {parts.start: gr.update(visible=False), parts.save: gr.update(visible=False)}
        return {**panes, **hidden, parts.stop: gr.update(visible=True), parts.findings: "", parts.document: None}

    def _ended(self) -> Updates:
        return {self._parts.start: gr.update(visible=True), self._parts.stop: gr.update(visible=False)}


def _file(document: Comparison) -> dict[str, str]:
    text = json.dumps(document.as_json(), ensure_ascii=False, allow_nan=False, indent=1)
    return {"name": "comparison.json", "type": "application/json", "text": text}


def _changed(update: CompareUpdate) -> list[Side]:
    return [update.changed] if update.changed else list(Side)


def _is_news(step: ComparisonStep) -> bool:
    """True for a step that must be shown: a side begins or ends, evidence is gathered, all is done."""
    changed = step.update.changed
    if step.document is not None or step.is_explaining or changed is None:
        return True
    return step.update.answers[changed].is_done


def _asked_length(value: float | None) -> int | None:
    """What a person chose; None where the page's own number stands, which is fitted to the context."""
    return None if value == DEFAULT_TOKENS else int(value or 0)
