"""How the service stands, as HTML: a card for each engine, and one for the cache of answers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from markupsafe import Markup

from myserve_ui.core.model_info import EngineStatus, LoadState, ModelInfo, ResponseCacheStatus, ServiceStatus
from myserve_ui.core.number_words import KIB, MIB, mib
from myserve_ui.ui.shared.templates import render

Facts = Iterable[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Card:
    """A title, a state that colours it, and facts with their names."""

    title: str
    state: str
    facts: Facts


def status_html(status: ServiceStatus) -> Markup:
    """The whole page of cards."""
    engines = {engine.model: engine for engine in status.engines}
    state, words = ("ready", "ready") if status.ready else ("failed", status.reason or "not ready")
    cards = [_model_card(model, engines.get(model.id)) for model in status.models]
    return render(
        "status/page",
        state=state,
        words=words,
        version=status.version,
        uptime=_duration(status.uptime_seconds),
        cards=[*cards, _cache_card(status.response_cache)],
    )


def _model_card(model: ModelInfo, engine: EngineStatus | None) -> Card:
    if engine is None:
        return Card(model.id, model.state, [("state", model.reason or model.state)])
    state = "failed" if not engine.alive or engine.stalled else "ready"
    return Card(model.id, state, [*_weights(model), *_work(model, engine)])


def _weights(model: ModelInfo) -> Facts:
    yield "precision", f"{model.precision}, {model.dtype} on {model.device}"
    if model.weight_bytes is not None:
        bits = f", {model.bits_per_parameter:.2f} bits per parameter" if model.bits_per_parameter else ""
        yield "weights", f"{mib(model.weight_bytes)}{bits}"
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
    yield "its memory", f"{kv_bytes / MIB:,.1f} MiB in use, {(model.kv_bytes_per_token or 0) / KIB:,.1f} KiB a token"
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


def _cache_card(cache: ResponseCacheStatus) -> Card:
    facts = [
        ("answers kept", f"{cache.entries:,}, {cache.num_bytes / MIB:,.1f} MiB"),
        ("asked again", _rate(cache.hits, cache.hits + cache.misses)),
    ]
    return Card("Cache of whole answers", LoadState.READY, facts)


def _rate(hits: int, lookups: int) -> str:
    return f"{hits:,} of {lookups:,} ({hits / lookups:.0%})" if lookups else "nothing looked up yet"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
