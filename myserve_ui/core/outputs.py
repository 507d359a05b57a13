"""What comes back from the engine: one message type for the whole life of a request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from myserve_ui.core.timings import RequestTimings


class FinishReason(StrEnum):
    STOP = "stop"
    """An end token, or a stop string."""
    LENGTH = "length"
    """max_tokens reached, or the context is full."""
    ABORT = "abort"
    """The client left."""
    ERROR = "error"


class RequestState(StrEnum):
    WAITING = "waiting"
    PREFILL = "prefill"
    DECODE = "decode"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class Usage:
    prompt_tokens: int
    completion_tokens: int
    """Generated ids, an end token counted."""
    cached_tokens: int = 0
    """Prompt tokens whose keys and values were already in the cache."""

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """One token beside the likeliest ones at its place.

    Natural logarithms, as the model itself gives them: before temperature, penalties and bias.
    """

    token_id: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()
    """The likeliest (token id, log-probability), in falling order; as many as were asked for."""


@dataclass(frozen=True, slots=True)
class RequestOutput:
    """News of one request since the last output; the deltas joined are the whole answer.

    `text_delta` may be empty: a token whose text is still held back (half a character, a possible stop string), a
    prefill chunk done, or a sign of life while waiting.
    """

    request_id: str
    state: RequestState
    usage: Usage
    timings: RequestTimings
    text_delta: str = ""
    token_ids: tuple[int, ...] = ()
    """Ids generated since the last output."""
    logprobs: tuple[TokenLogprob, ...] = ()
    """One for each of `token_ids`, if they were asked for."""
    prompt_logprobs: tuple[TokenLogprob, ...] = ()
    """Those of the prompt since the last output, from the prompt's second token on, if they were asked for."""
    num_computed_tokens: int = 0
    """Prompt tokens done so far: the progress of a prefill."""
    queue_position: int | None = None
    """1 for the next to be admitted; None once admitted."""
    finish_reason: FinishReason | None = None
    """Set on the last output only."""
    stop_reason: str | int | None = None
    """The stop string or token id that ended the request, if one did and it was not a plain end token."""
    error: str | None = None
    """With finish_reason ERROR: a sentence for the user."""
    error_code: str | None = None
    """Wire code of `error`, where it has one: shutting_down, engine_dead."""


def join_outputs(outputs: Sequence[RequestOutput]) -> RequestOutput:
    """One output that says what all of them say, and ends as the last one does; at least one."""
    return replace(
        outputs[-1],
        text_delta="".join(output.text_delta for output in outputs),
        token_ids=tuple(token_id for output in outputs for token_id in output.token_ids),
        logprobs=tuple(entry for output in outputs for entry in output.logprobs),
        prompt_logprobs=tuple(entry for output in outputs for entry in output.prompt_logprobs),
    )
