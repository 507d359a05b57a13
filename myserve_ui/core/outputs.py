"""What comes back from the engine: one message type for the whole life of a request, with its counts and times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum


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
class RequestTimings:
    """When things happened to a request, in seconds of one monotonic clock; None until reached.

    The differences are the server split of the request's latency.
    """

    arrival: float
    """Put into the engine's inbox."""
    scheduled: float | None = None
    """First part of the prompt entered a step."""
    first_token: float | None = None
    last_token: float | None = None
    num_output_tokens: int = 0
    from_cache: bool = False
    """True if the whole answer was at hand: nothing was computed, and no other mark is reached."""

    @property
    def queue_time(self) -> float | None:
        return None if self.scheduled is None else self.scheduled - self.arrival

    @property
    def prefill_time(self) -> float | None:
        if self.first_token is None or self.scheduled is None:
            return None
        return self.first_token - self.scheduled

    @property
    def ttft(self) -> float | None:
        """Time to first token: queue and prefill together."""
        return None if self.first_token is None else self.first_token - self.arrival

    @property
    def decode_time(self) -> float | None:
        if self.last_token is None or self.first_token is None:
            return None
        return self.last_token - self.first_token

    @property
    def tpot(self) -> float | None:
        """Time per output token after the first: decode_time / (N - 1); None for a single token."""
        if self.decode_time is None or self.num_output_tokens < 2:
            return None
        return self.decode_time / (self.num_output_tokens - 1)

    @property
    def tokens_per_second(self) -> float | None:
        """Decode speed, 1 / TPOT."""
        return 1.0 / self.tpot if self.tpot else None


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
