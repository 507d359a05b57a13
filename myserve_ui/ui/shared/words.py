"""Requests, loads and models as words for the page. Pure text: no Gradio, no service, no HTML."""

from __future__ import annotations

from collections.abc import Container, Iterable

from myserve_ui.core.model_info import LoadProgress, LoadState, ModelInfo
from myserve_ui.core.number_words import count, model_words, percent, precision_words, seconds
from myserve_ui.core.outputs import FinishReason, RequestOutput, RequestState

FINISH_WORDS = {
    FinishReason.STOP: "finished",
    FinishReason.LENGTH: "cut at the token limit",
    FinishReason.ABORT: "stopped",
    FinishReason.ERROR: "failed",
}
STATE_WORDS = {
    LoadState.UNLOADED: "not loaded yet",
    LoadState.LOADING: "loading",
    LoadState.READY: "ready",
    LoadState.FAILED: "failed to load",
    LoadState.UNAVAILABLE: "not possible here",
}
LASTING = frozenset({LoadState.UNAVAILABLE})
NOT_READY = frozenset(LoadState) - {LoadState.READY}
"""For a dropdown that is drawn anew whenever a model comes or goes."""


def ordinal(number: int) -> str:
    tail = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{tail}"


def progress_line(output: RequestOutput) -> str:
    """What a running request does now. The part after the first " · " survives a stop."""
    if output.usage.completion_tokens:
        return " · ".join(["writing", *_speed_words(output)])
    if output.state is RequestState.WAITING:
        position = output.queue_position
        return "waiting for its turn" if position is None else f"waiting, {ordinal(position)} in the queue"
    return f"reading the prompt {output.num_computed_tokens:,}/{output.usage.prompt_tokens:,}"


def answer_line(output: RequestOutput) -> str:
    """The numbers of a finished request in one line."""
    timings, words = output.timings, _speed_words(output)
    if timings.ttft is not None:
        split = f"queue {seconds(timings.queue_time)} + prefill {seconds(timings.prefill_time)}"
        words.append(f"first token {seconds(timings.ttft)} ({split})")
    words.append(f"{output.usage.cached_tokens:,} of {output.usage.prompt_tokens:,} prompt tokens cached")
    words.append(FINISH_WORDS[output.finish_reason or FinishReason.STOP])
    return " · ".join(words)


def answer_details(output: RequestOutput, model: ModelInfo, seed: int | None) -> str:
    """What stands behind the line: markdown, folded away until asked for."""
    hardware = f" ({words})" if (words := hardware_words(model)) else ""
    rows = [f"Model {model.name}, {precision_words(model.precision)}{hardware}"]
    rows.append(f"Decode {seconds(output.timings.decode_time)}, {seconds(output.timings.tpot)} per token")
    if seed is not None:
        rows.append(f"Seed {seed}: the same seed, settings and chat give this answer again")
    if isinstance(output.stop_reason, str):
        rows.append(f"Ended by the stop string {output.stop_reason!r}")
    return "\n".join(f"- {row}" for row in rows)


def load_line(progress: LoadProgress) -> str:
    """A step of a load: loading NAME: reading weights, 40 %."""
    share = "" if progress.fraction is None else f", {percent(progress.fraction)}"
    return f"loading {progress.model}: {progress.stage}{share}"


def hardware_words(model: ModelInfo) -> str:
    """float32 on cpu; empty while neither is known."""
    return " on ".join(word for word in (model.dtype, model.device) if word)


def model_label(model: ModelInfo) -> str:
    """What distinguishes this model on the page: full precision · SmolLM2-135M-Instruct."""
    return f"{precision_words(model.precision)} · {model.name}"


def model_choices(models: Iterable[ModelInfo], *, telling: Container[LoadState] = LASTING) -> list[tuple[str, str]]:
    """(label, id) of every entry of the catalog, for a dropdown; with the model only where there are several.

    States of `telling` are told; the label of another would be false once its model has come or gone.
    """
    entries = list(models)
    has_several = len({model.name for model in entries}) > 1
    labels = [
        model_words(model.name, model.precision) if has_several else precision_words(model.precision)
        for model in entries
    ]
    return [
        (f"{label} ({STATE_WORDS[model.state]})" if model.state in telling else label, model.id)
        for label, model in zip(labels, entries, strict=True)
    ]


def _speed_words(output: RequestOutput) -> list[str]:
    words = [count(output.usage.completion_tokens, "token")]
    if speed := output.timings.tokens_per_second:
        words.append(f"{speed:.1f} tok/s")
    return words
