"""Log-probabilities of tokens, as the model itself gives them: before temperature, penalties and bias."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """One token beside the likeliest ones at its place. Natural logarithms."""

    token_id: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()
    """The likeliest (token id, log-probability), in falling order; as many as were asked for."""
