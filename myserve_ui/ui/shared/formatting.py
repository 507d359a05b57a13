"""Numbers and states as words for the page. Pure text: no Gradio, no service."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from myserve_ui.core.model_info import LoadProgress, LoadState, ModelInfo
from myserve_ui.core.number_words import count, mib, percent, precision_words, seconds
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
    rows = [f"Model {model.name}, {precision_words(model.precision)}{_hardware(model)}"]
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


def model_choices(models: Iterable[ModelInfo]) -> list[tuple[str, str]]:
    """(label, id) of every entry of the catalog, for a dropdown; the name only where there are several."""
    entries = list(models)
    has_several = len({model.name for model in entries}) > 1
    return [(_choice_label(model, with_name=has_several), model.id) for model in entries]


def header_badges(model: ModelInfo, progress: LoadProgress | None = None) -> str:
    """HTML of the header line: name, precision, device, sizes, state, and the reason if something is wrong."""
    state = load_line(progress) if progress else STATE_WORDS[model.state]
    badges = [f'<span class="badge state {model.state.value}"><i></i>{escape(state)}</span>']
    badges += [f'<span class="badge">{escape(words)}</span>' for words in _badge_words(model)]
    is_wrong = model.state in (LoadState.FAILED, LoadState.UNAVAILABLE) and not progress
    reason = f'<p class="reason">{escape(model.reason)}</p>' if is_wrong and model.reason else ""
    return f'<div class="badges">{"".join(badges)}</div>{reason}'


def context_meter(used: int, limit: int | None) -> str:
    """HTML of the used part of the context; nothing while either number is unknown."""
    if not used or not limit:
        return ""
    share = min(1.0, used / limit)
    level = "full" if share > 0.95 else "high" if share > 0.8 else "low"
    label = f"{used:,} of {limit:,} tokens of context used"
    return (
        f'<div class="meter {level}" role="meter" aria-valuemin="0" aria-valuemax="{limit}" aria-valuenow="{used}" '
        f'aria-label="{label}" title="{label}">'
        f'<b><i style="width:{share:.1%}"></i></b>{used:,} / {limit:,} tokens</div>'
    )


def _speed_words(output: RequestOutput) -> list[str]:
    words = [count(output.usage.completion_tokens, "token")]
    if speed := output.timings.tokens_per_second:
        words.append(f"{speed:.1f} tok/s")
    return words


def _hardware(model: ModelInfo) -> str:
    words = [word for word in (model.dtype, model.device) if word]
    return f" ({' on '.join(words)})" if words else ""


def _choice_label(model: ModelInfo, *, with_name: bool) -> str:
    label = precision_words(model.precision)
    label = f"{label} · {model.name}" if with_name else label
    return label if model.state is LoadState.READY else f"{label} ({STATE_WORDS[model.state]})"


def _badge_words(model: ModelInfo) -> list[str]:
    words = [model.name, precision_words(model.precision)]
    if hardware := " on ".join(word for word in (model.dtype, model.device) if word):
        words.append(hardware)
    if model.context_length:
        words.append(f"{model.context_length:,} context")
    if model.weight_bytes:
        words.append(mib(model.weight_bytes))
    return words
