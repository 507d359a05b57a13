"""What is known of one (model, precision) that can be asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum


class LoadState(StrEnum):
    UNLOADED = "unloaded"
    LOADING = "loading"
    READY = "ready"
    FAILED = "failed"
    """Loading failed, or the engine died; `reason` says why."""
    UNAVAILABLE = "unavailable"
    """Not possible on this machine; `reason` says why."""


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """One line of the catalog. Sizes are None until the weights are loaded."""

    id: str
    """`NAME` for full precision, `NAME:nf4` and the like otherwise."""
    name: str
    precision: str
    state: LoadState
    reason: str | None = None
    dtype: str | None = None
    device: str | None = None
    context_length: int | None = None
    """Tokens, prompt and answer together."""
    num_parameters: int | None = None
    weight_bytes: int | None = None
    """Every parameter, buffer and quantisation state; tied tensors once."""
    kv_bytes_per_token: int | None = None
    bytes_per_step: int | None = None
    """Moved for the weights by one step, however many sequences decode."""
    has_chat_template: bool | None = None
    takes_tools: bool | None = None
    """Whether its chats may offer functions to call."""
    note: str | None = None
    """A sentence a user should know, such as where the weights come from."""
    created: int = 0
    """Unix seconds; when the catalog was made."""

    @property
    def bits_per_parameter(self) -> float | None:
        if self.weight_bytes is None or not self.num_parameters:
            return None
        return 8 * self.weight_bytes / self.num_parameters


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """A step of a load: what is being done, and how far it is (0..1, None when it cannot be known)."""

    model: str
    stage: str
    fraction: float | None = None


OnProgress = Callable[[str, float | None], None]
"""Called with a stage in words and how far it is, 0..1 or None; from the loading thread, so it must be quick."""


def ignore_progress(stage: str, fraction: float | None) -> None:
    """For callers that do not look."""


@dataclass(frozen=True, slots=True)
class EngineStatus:
    """One engine at this moment."""

    model: str
    alive: bool
    stalled: bool
    num_running: int
    num_waiting: int
    kv_tokens_used: int
    kv_tokens_total: int
    prefix_cache_queries: int
    """Prompt tokens looked up in the prefix cache since the start."""
    prefix_cache_hits: int
    prompt_tokens_total: int
    generation_tokens_total: int
    steps_total: int
    kv_tokens_kept: int = 0
    """Tokens of ended sequences that a prompt which begins like them need not compute again."""
    preemptions_total: int = 0
    """Sequences that made way for others and were computed again."""
    failed_steps_total: int = 0
    out_of_memory_steps_total: int = 0
    """Steps that did not fit into memory and were done again with less."""
    last_error: str | None = None


@dataclass(frozen=True, slots=True)
class ResponseCacheStatus:
    """The cache of whole answers at this moment, and its look-ups since the start."""

    entries: int = 0
    num_bytes: int = 0
    hits: int = 0
    misses: int = 0
    """Look-ups of answers that were not there; requests that may not be kept are not looked up."""


@dataclass(frozen=True, slots=True)
class ServiceStatus:
    """The service at this moment; `ready` is what /health answers."""

    ready: bool
    reason: str | None
    """Why it is not ready: "loading", "draining", "engine dead", "stalled"; a sentence for people."""
    code: str | None
    """Wire code of `reason`: model_loading, shutting_down, engine_dead, engine_stalled."""
    version: str
    default_model: str
    uptime_seconds: float
    models: tuple[ModelInfo, ...]
    engines: tuple[EngineStatus, ...]
    response_cache: ResponseCacheStatus = field(default_factory=ResponseCacheStatus)

    @property
    def num_unfinished(self) -> int:
        """Requests that run or wait, of all engines together."""
        return sum(engine.num_running + engine.num_waiting for engine in self.engines)
