"""What the engine counted since its start, and how it stands after its latest step."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class EngineCounters:
    """Grow for as long as the engine lives."""

    steps: int = 0
    generation_tokens: int = 0
    failed_steps: int = 0
    out_of_memory_steps: int = 0
    """Steps that did not fit into memory and were done again with less."""


@dataclass(frozen=True, slots=True)
class EngineSnapshot:
    """The engine between two steps; frozen, so any thread may read it."""

    num_running: int = 0
    waiting: tuple[str, ...] = ()
    """Request ids in the order in which they will be admitted."""
    kv_tokens_used: int = 0
    kv_tokens_kept: int = 0
    """Tokens of ended sequences, kept for reuse."""
    kv_tokens_total: int = 0
    prefix_lookup_tokens: int = 0
    prefix_hit_tokens: int = 0
    preemptions: int = 0
    steps: int = 0
    prompt_tokens: int = 0
    """Prompt tokens of requests that were admitted, cached ones included."""
    generation_tokens: int = 0
    failed_steps: int = 0
    out_of_memory_steps: int = 0
