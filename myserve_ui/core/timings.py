"""When things happened to one request, and the latencies that follow. Seconds of one monotonic clock."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RequestTimings:
    """Marks in the engine, None until reached. The differences are the server split of the request's latency."""

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
