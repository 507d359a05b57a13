"""One streamed chat request to an OpenAI-compatible server, timed chunk by chunk."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from types import MappingProxyType
from urllib.parse import urlsplit

import httpx2

from myserve_ui.bench.client.bounded_answer import read_answer, status_words
from myserve_ui.bench.client.chat_stream import BROKE_OFF, ChatStream, TokenCounts, bounds_for, why_no_stream
from myserve_ui.bench.client.event_stream import DONE, EventReader, ServerEvent
from myserve_ui.bench.client.foreign_words import NOT_JSON, ForeignAnswerError
from myserve_ui.bench.client.records import Outcome, RequestRecord
from myserve_ui.bench.workload import PlannedRequest
from myserve_ui.errors import InvalidRequestError

logger = logging.getLogger(__name__)

REJECTIONS = (429, 503)
NO_KEY = "none"
FIXED_LENGTH: Mapping[str, object] = MappingProxyType({"ignore_eos": True})
"""How our server, vLLM, SGLang and llama.cpp are asked to go on past the end token."""
LONGEST_ANSWER = 3600.0
"""Seconds, for a server that sends a byte now and then."""
CLOSING_SECONDS = 2.0
"""That a server may take to close a stream that it said is over."""


@dataclass(frozen=True, slots=True)
class Target:
    """Whom to measure."""

    url: str
    """Base URL, as the OpenAI SDK takes it: http://127.0.0.1:7860/v1"""
    model: str
    api_key: str = field(default=NO_KEY, repr=False)
    extra: Mapping[str, object] = field(default_factory=lambda: FIXED_LENGTH, hash=False)
    """Fields of every body; by default those that ask for answers of exactly max_tokens."""

    def __post_init__(self) -> None:
        if not _is_url(self.url):
            raise InvalidRequestError(
                f"{self.url[:80]!r} is no URL of a server: write http:// or https://, the host, and /v1.", param="url"
            )

    @property
    def has_key(self) -> bool:
        return self.api_key not in ("", NO_KEY)

    def body(self, planned: PlannedRequest) -> dict[str, object]:
        """The JSON of a request."""
        body: dict[str, object] = {
            "model": self.model,
            "messages": [{"role": role, "content": content} for role, content in planned.messages],
            "max_tokens": planned.max_tokens,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        return body | dict(self.extra)

    @property
    def headers(self) -> dict[str, str]:
        """No answer may come from a cache of answers: that would measure the cache."""
        return {"Authorization": f"Bearer {self.api_key}", "Cache-Control": "no-store"}


async def send(
    client: httpx2.AsyncClient,
    target: Target,
    planned: PlannedRequest,
    *,
    arrival: float,
    clock: Callable[[], float] = time.perf_counter,
) -> RequestRecord:
    """Send one request and read its stream. Whatever goes wrong is in the record; only cancellation is raised."""
    exchange = _Exchange(target, planned, clock, ChatStream(bounds_for(planned.max_tokens)), sent=clock())
    try:
        async with asyncio.timeout(LONGEST_ANSWER):
            await exchange.run(client)
    except ForeignAnswerError as error:
        exchange.error = exchange.error or str(error)
    except Exception as error:  # the border: nothing that a foreign server does ends a run
        logger.debug("a request of a benchmark failed", exc_info=True)
        exchange.error = exchange.error or _in_words(error)
    return exchange.record(arrival)


@dataclass(slots=True)
class _Exchange:
    """One request, and what became of it."""

    target: Target
    planned: PlannedRequest
    clock: Callable[[], float]
    stream: ChatStream
    sent: float
    outcome: Outcome = Outcome.FAILED
    counts: TokenCounts | None = None
    error: str | None = None
    is_held_open: bool = False
    """Whether the server said that this was all, but never closed the stream."""

    async def run(self, client: httpx2.AsyncClient) -> None:
        """Raises ForeignAnswerError for an answer that is none, and whatever the connection raises."""
        body, place = self.target.body(self.planned), f"{self.target.url}/chat/completions"
        async with client.stream("POST", place, json=body, headers=self.target.headers) as response:
            if response.status_code != 200:
                self.outcome = Outcome.REJECTED if response.status_code in REJECTIONS else Outcome.FAILED
                self.error = f"HTTP {response.status_code}"
                self.error = status_words(await read_answer(response))
                return
            await self._read(response)
            self.counts = self.stream.counts(len(response.request.content))
            self.outcome = Outcome.COMPLETED

    async def _read(self, response: httpx2.Response) -> None:
        """All events. What goes wrong once the server said that this was all, or that it failed, changes nothing."""
        reader = EventReader(self.stream.bounds.event_bytes)
        try:
            async with asyncio.timeout(None) as patience, aclosing(response.aiter_bytes()) as parts:
                async for part in parts:
                    self._see(reader.feed(part), len(part))
                    if self.stream.is_over and patience.when() is None:
                        patience.reschedule(asyncio.get_running_loop().time() + CLOSING_SECONDS)
            self._see_last(reader)
        except (httpx2.HTTPError, OSError, ForeignAnswerError):
            if not self.stream.is_over:
                raise
            self.is_held_open = True
        if not self.stream.has_events and reader.strays:
            raise ForeignAnswerError(why_no_stream(bytes(reader.strays), response.headers.get("content-type", "")))
        if self.stream.error is not None:
            raise ForeignAnswerError(self.stream.error)

    def _see(self, events: Iterator[ServerEvent], received: int) -> None:
        self.stream.count_bytes(received)
        for event in events:
            self.stream.see(event, self.clock())

    def _see_last(self, reader: EventReader) -> None:
        """What stands after the last end of a line is an event too, if it is whole."""
        is_cut = reader.is_cut
        for event in reader.close():
            if is_cut and event.value is NOT_JSON and event.text != DONE and self.stream.error is None:
                raise ForeignAnswerError(BROKE_OFF)
            self.stream.see(event, self.clock())

    def record(self, arrival: float) -> RequestRecord:
        """What happened, as it is kept."""
        times, counts = self.stream.piece_times, self.counts or TokenCounts(0, 0, None)
        return RequestRecord(
            index=self.planned.index,
            arrival=arrival,
            sent=self.sent,
            outcome=self.outcome,
            end=self.stream.done_at if self.is_held_open and self.stream.done_at is not None else self.clock(),
            first_token=times[0] if times else None,
            last_token=times[-1] if times else None,
            prompt_tokens=counts.prompt,
            cached_tokens=counts.cached,
            output_tokens=counts.output,
            chunk_times=tuple(times),
            error=self.stream.error or self.error,
            text=self.stream.text,
        )


def _is_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _in_words(error: Exception) -> str:
    if isinstance(error, httpx2.ConnectError):
        return "the server cannot be reached"
    if isinstance(error, httpx2.TimeoutException | TimeoutError):
        return "the server did not answer in time"
    if isinstance(error, httpx2.InvalidURL):
        return "the URL is none that can be asked"
    if isinstance(error, httpx2.DecodingError):
        return "the answer is compressed in a way that cannot be read"
    if isinstance(error, UnicodeEncodeError):
        return "the prompt holds half a character, which cannot be sent"
    return f"the connection broke off ({type(error).__name__})"
