"""What the engine is handed: a prompt of ids and how to go on from it. Everything is validated by now."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from myserve_ui.core.sampling_params import ResolvedSampling
from myserve_ui.engine.grammars.compiler import CompiledGrammar

OnLogits = Callable[[Any], None]
"""Called on the engine's thread with a tensor [rows, vocab_size], float32, for the next `rows` scored tokens."""


@dataclass(frozen=True, slots=True)
class EngineRequest:
    request_id: str
    prompt_token_ids: tuple[int, ...]
    params: ResolvedSampling
    """max_tokens fits the context."""
    arrival: float
    """Engine clock, seconds."""
    cache_prompt: bool = True
    grammar: CompiledGrammar | None = None
    """Holds the answer to a form."""
    on_logits: OnLogits | None = None
    """Gets the logits that lead up to each prompt token, instead of their log-probabilities being reported."""
    first_scored: int = 1
    """Index of the first prompt token to score; the first token of all has none before it."""
    choice: int = 0
    """Which of several answers to one prompt; each draws from a generator of its own."""
    parent: str | None = None
    """Request id of the first of several answers: this one waits for its prompt, then copies the cache."""
