"""Two answers as panes of HTML: what each says, how fast, and what it weighs. Pure text: no Gradio, no service."""

from __future__ import annotations

from markupsafe import Markup

from myserve_ui.core.model_info import ModelInfo
from myserve_ui.core.number_words import UNKNOWN, count, mib, seconds
from myserve_ui.serving.compare_service import Side, SideAnswer
from myserve_ui.ui.shared.templates import render
from myserve_ui.ui.shared.words import FINISH_WORDS, model_label, progress_line

RUNNING = 'data-state="running"'
STOPPED = 'data-state="stopped"'
SIDE_WORDS = {Side.BASE: "Base", Side.CANDIDATE: "Candidate"}


def pane(side: Side, info: ModelInfo, answer: SideAnswer | None = None, *, status: str = "") -> Markup:
    """HTML of one side; `status` says what happens before the first word, such as a load."""
    state, words = _state(answer, status)
    return render(
        "compare/pane",
        side=SIDE_WORDS[side],
        model=model_label(info),
        state=state,
        state_words=words,
        figures=_figures(info, answer),
        answer=answer,
    )


def stopped(html: str) -> str:
    """A pane that was left in the middle of its answer, as one that was stopped."""
    return str(html).replace(RUNNING, STOPPED, 1)  # Markup would escape what it looks for


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


def _figures(info: ModelInfo, answer: SideAnswer | None) -> list[tuple[str, str]]:
    """Names and values of small numbers."""
    latest = answer.latest if answer else None
    speed = latest.timings.tokens_per_second if latest else None
    return [
        ("speed", f"{speed:.1f} tok/s" if speed else UNKNOWN),
        ("first token", seconds(latest.timings.ttft if latest else None)),
        ("answer", count(latest.usage.completion_tokens, "token") if latest else UNKNOWN),
        ("weights", mib(info.weight_bytes or None)),
        ("per parameter", f"{info.bits_per_parameter:.1f} bits" if info.bits_per_parameter else UNKNOWN),
    ]
