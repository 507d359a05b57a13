"""Two answers as panes of HTML: what each says, how fast, and what it weighs. Pure text: no Gradio, no service."""

from __future__ import annotations

from html import escape

from myserve_ui.core.model_info import ModelInfo
from myserve_ui.core.number_words import MIB, PRECISION_WORDS, count, seconds
from myserve_ui.serving.compare_service import Side, SideAnswer
from myserve_ui.ui.shared.words import FINISH_WORDS, progress_line

RUNNING = 'data-state="running"'
STOPPED = 'data-state="stopped"'
SIDE_WORDS = {Side.BASE: "Base", Side.CANDIDATE: "Candidate"}
UNKNOWN = "–"


def pane(side: Side, info: ModelInfo, answer: SideAnswer | None = None, *, status: str = "") -> str:
    """HTML of one side; `status` says what happens before the first word, such as a load."""
    state, words = _state(answer, status)
    text = f'<div class="answer">{escape(answer.text)}</div>' if answer and answer.text else ""
    problem = f'<p class="problem">{escape(answer.error)}</p>' if answer and answer.error else ""
    return (
        f'<article class="pane" data-state="{state}" aria-label="{SIDE_WORDS[side]}">'
        f'<header><h3>{SIDE_WORDS[side]}</h3><span class="model">{escape(model_label(info))}</span>'
        f'<span class="state">{escape(words)}</span></header>'
        f"{_figures(info, answer)}{problem}{text}</article>"
    )


def stopped(html: str) -> str:
    """A pane that was left in the middle of its answer, as one that was stopped."""
    return html.replace(RUNNING, STOPPED, 1)


def model_label(info: ModelInfo) -> str:
    """What distinguishes this model on the page: full precision, SmolLM2-135M-Instruct."""
    return f"{PRECISION_WORDS.get(info.precision, info.precision)} · {info.name}"


def figures(pairs: list[tuple[str, str]]) -> str:
    """Names and values as a row of small numbers."""
    cells = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in pairs)
    return f'<dl class="figures">{cells}</dl>'


def _state(answer: SideAnswer | None, status: str) -> tuple[str, str]:
    """(state, words) of a side."""
    if answer is None:
        return ("running", status) if status else ("idle", "")
    if answer.error:
        return "failed", "failed"
    if answer.latest is None:
        return "running", status or "waiting"
    if (reason := answer.latest.finish_reason) is not None:
        return "done", FINISH_WORDS[reason]
    return "running", progress_line(answer.latest).partition(" · ")[0]


def _figures(info: ModelInfo, answer: SideAnswer | None) -> str:
    latest = answer.latest if answer else None
    speed = latest.timings.tokens_per_second if latest else None
    return figures(
        [
            ("speed", f"{speed:.1f} tok/s" if speed else UNKNOWN),
            ("first token", seconds(latest.timings.ttft if latest else None)),
            ("answer", count(latest.usage.completion_tokens, "token") if latest else UNKNOWN),
            ("weights", f"{info.weight_bytes / MIB:,.0f} MiB" if info.weight_bytes else UNKNOWN),
            ("per parameter", f"{info.bits_per_parameter:.1f} bits" if info.bits_per_parameter else UNKNOWN),
        ]
    )
