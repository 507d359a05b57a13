"""What happened to one request under load, and the latencies that follow. Seconds of one monotonic clock."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    COMPLETED = "completed"
    REJECTED = "rejected"
    """The server said that it takes no more (429, 503)."""
    FAILED = "failed"
    """Refused, broke off, sent no usage, or could not be reached."""
    CANCELLED = "cancelled"
    """The run was stopped, its time was over, or an earlier turn of the conversation was not answered."""


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """Raw times of one request. Only completed requests count for latencies."""

    index: int
    arrival: float
    """When it was planned to begin."""
    sent: float
    outcome: Outcome
    end: float
    first_token: float | None = None
    """The first chunk with at least one generated token; a role alone is none."""
    last_token: float | None = None
    prompt_tokens: int = 0
    """From the server's usage, never counted here."""
    output_tokens: int = 0
    chunk_times: tuple[float, ...] = ()
    """When each chunk with text came."""
    error: str | None = None
    text: str = ""
    """The answer, for the next turn of the conversation."""
    cached_tokens: int | None = None
    """Of the prompt's, those that were in the server's cache; None where it does not say."""

    @property
    def ttft(self) -> float | None:
        """Time to first token, from sending."""
        return None if self.first_token is None else self.first_token - self.sent

    @property
    def e2e(self) -> float:
        """End to end, from sending to the closed stream."""
        return self.end - self.sent

    @property
    def e2e_from_arrival(self) -> float:
        """The same with the time that the client itself waited."""
        return self.end - self.arrival

    @property
    def tpot(self) -> float | None:
        """Time per output token after the first: (E2E - TTFT) / (N - 1).

        None for a single token, and for an answer that came in one piece: it shows no time between tokens.
        """
        if self.ttft is None or self.output_tokens < 2 or len(self.chunk_times) < 2:
            return None
        return (self.e2e - self.ttft) / (self.output_tokens - 1)

    @property
    def token_gaps(self) -> list[tuple[float, int]]:
        """Gaps between successive tokens, each with how many there are of it.

        Tokens beyond one a chunk are spread evenly: the gap of a chunk of k tokens is k gaps of a k-th. Usage says how
        many tokens came in all; the first chunk begins the clock and gives no gap.
        """
        gaps = [later - earlier for earlier, later in zip(self.chunk_times, self.chunk_times[1:], strict=False)]
        if not gaps or self.output_tokens < 2:
            return []
        return share_out(gaps, self.output_tokens - 1)


def share_out(gaps: list[float], num_tokens: int) -> list[tuple[float, int]]:
    """(gap, how often): `num_tokens` of the same total as `gaps`, each shared by the tokens that its chunk brought.

    How many a chunk brought is not on the wire, so they are dealt out evenly, the remainder to the first chunks. Fewer
    tokens than chunks (an end token without text is none) leave the gaps as they are.
    """
    share, extra = divmod(max(num_tokens, len(gaps)), len(gaps))
    counts = [share + (index < extra) for index in range(len(gaps))]
    return [(gap / count, count) for gap, count in zip(gaps, counts, strict=True)]
