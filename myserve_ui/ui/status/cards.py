"""How the service stands, as HTML: a card for each engine, and one for the cache of answers."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from myserve_ui.core.model_info import EngineStatus, LoadState, ModelInfo, ResponseCacheStatus, ServiceStatus

MIB = 2**20
Facts = Iterable[tuple[str, str]]


def status_html(status: ServiceStatus) -> str:
    """The whole page of cards."""
    engines = {engine.model: engine for engine in status.engines}
    cards = [_model_card(model, engines.get(model.id)) for model in status.models]
    return f'<div class="status">{_headline(status)}{"".join(cards)}{_cache_card(status.response_cache)}</div>'


def _headline(status: ServiceStatus) -> str:
    state, text = ("ready", "ready") if status.ready else ("failed", status.reason or "not ready")
    return (
        f'<p class="status-line"><span class="badge state {state}">{escape(text)}</span> '
        f"version {escape(status.version)} · up for {_duration(status.uptime_seconds)}</p>"
    )


def _model_card(model: ModelInfo, engine: EngineStatus | None) -> str:
    if engine is None:
        return _card(model.id, str(model.state), [("state", model.reason or str(model.state))])
    state = "failed" if not engine.alive or engine.stalled else "ready"
    return _card(model.id, state, [*_weights(model), *_work(model, engine)])


def _weights(model: ModelInfo) -> Facts:
    yield "precision", f"{model.precision}, {model.dtype} on {model.device}"
    if model.weight_bytes is not None:
        bits = f", {model.bits_per_parameter:.2f} bits per parameter" if model.bits_per_parameter else ""
        yield "weights", f"{model.weight_bytes / MIB:,.0f} MiB{bits}"
    yield "context", f"{model.context_length:,} tokens"
    if model.note:
        yield "note", model.note


def _work(model: ModelInfo, engine: EngineStatus) -> Facts:
    yield "requests", f"{engine.num_running} running, {engine.num_waiting} waiting"
    share = engine.kv_tokens_used / engine.kv_tokens_total if engine.kv_tokens_total else 0.0
    kv_bytes = engine.kv_tokens_used * (model.kv_bytes_per_token or 0)
    kept = f", {engine.kv_tokens_kept:,} more kept for reuse" if engine.kv_tokens_kept else ""
    used = f"{engine.kv_tokens_used:,} of {engine.kv_tokens_total:,} tokens ({share:.0%})"
    yield "cache of keys and values", f"{used}{kept}"
    yield "its memory", f"{kv_bytes / MIB:,.1f} MiB in use, {(model.kv_bytes_per_token or 0) / 1024:,.1f} KiB a token"
    yield "prompt tokens from the cache", _rate(engine.prefix_cache_hits, engine.prefix_cache_queries)
    yield "tokens so far", f"{engine.prompt_tokens_total:,} read, {engine.generation_tokens_total:,} written"
    if engine.preemptions_total:
        yield "made way and computed again", f"{engine.preemptions_total:,} requests"
    if engine.out_of_memory_steps_total:
        yield "short of memory", f"{engine.out_of_memory_steps_total:,} steps done again with less"
    if engine.failed_steps_total:
        yield "failed steps", f"{engine.failed_steps_total:,} of {engine.steps_total + engine.failed_steps_total:,}"
    if engine.stalled:
        yield "problem", "has work but finishes no step"
    if engine.last_error:
        yield "last error", engine.last_error


def _cache_card(cache: ResponseCacheStatus) -> str:
    facts = [
        ("answers kept", f"{cache.entries:,}, {cache.num_bytes / MIB:,.1f} MiB"),
        ("asked again", _rate(cache.hits, cache.hits + cache.misses)),
    ]
    return _card("Cache of whole answers", LoadState.READY, facts)


def _card(title: str, state: str, facts: Facts) -> str:
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts)
    return f'<section class="card {escape(state)}"><h3>{escape(title)}</h3><dl>{rows}</dl></section>'


def _rate(hits: int, lookups: int) -> str:
    return f"{hits:,} of {lookups:,} ({hits / lookups:.0%})" if lookups else "nothing looked up yet"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
