"""What the engine is handed: a prompt of ids and how to go on from it. Everything is validated by now."""

from __future__ import annotations

from dataclasses import dataclass

from myserve_ui.core.sampling_params import SamplingParams
from myserve_ui.engine.grammar_compiler import CompiledGrammar


@dataclass(frozen=True, slots=True)
class EngineRequest:
    request_id: str
    prompt_token_ids: tuple[int, ...]
    params: SamplingParams
    """Resolved: no field is None but seed; max_tokens is set and fits the context."""
    arrival: float
    """Engine clock, seconds."""
    cache_prompt: bool = True
    grammar: CompiledGrammar | None = None
    """Holds the answer to a form."""
    choice: int = 0
    """Which of several answers to one prompt; each draws from a generator of its own."""
    parent: str | None = None
    """Request id of the first of several answers: this one waits for its prompt, then copies the cache."""
