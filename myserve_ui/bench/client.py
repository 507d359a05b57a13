"""One streamed chat request to an OpenAI-compatible server, timed chunk by chunk."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

import httpx2

from myserve_ui.bench.records import Outcome, RequestRecord
from myserve_ui.bench.workload import PlannedRequest
from myserve_ui.errors import InvalidRequestError

REJECTIONS = (429, 503)
NO_KEY = "none"
FIXED_LENGTH: Mapping[str, Any] = MappingProxyType({"ignore_eos": True})
"""How our server, vLLM, SGLang and llama.cpp are asked to go on past the end token."""
MALFORMED = (ValueError, TypeError, AttributeError, KeyError)
"""What reading an event raises that is not built as OpenAI's are."""
NO_USAGE = "the stream ended without usage, so its tokens cannot be counted"


@dataclass(frozen=True, slots=True)
class Target:
    """Whom to measure."""

    url: str
    """Base URL, as the OpenAI SDK takes it: http://127.0.0.1:7860/v1"""
    model: str
    api_key: str = field(default=NO_KEY, repr=False)
    extra: Mapping[str, Any] = field(default_factory=lambda: FIXED_LENGTH, hash=False)
    """Fields of every body; by default those that ask for answers of exactly max_tokens."""

    def __post_init__(self) -> None:
        if not _is_url(self.url):
            raise InvalidRequestError(
                f"{self.url[:80]!r} is no URL of a server: write http:// or https://, the host, and /v1.", param="url"
            )

    @property
    def has_key(self) -> bool:
        return self.api_key not in ("", NO_KEY)

    def body(self, planned: PlannedRequest) -> dict[str, Any]:
        body: dict[str, Any] = {
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


@dataclass(slots=True)
class _Timing:
    """What is noted while one stream is read."""

    sent: float
    chunk_times: list[float] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)
    usage: dict[str, int] | None = None
    error: str | None = None
    is_done: bool = False


async def send(
    client: httpx2.AsyncClient,
    target: Target,
    planned: PlannedRequest,
    *,
    arrival: float,
    clock: Callable[[], float] = time.perf_counter,
) -> RequestRecord:
    """Send one request and read its stream. Whatever goes wrong is in the record; only cancellation is raised."""
    timing = _Timing(clock())
    outcome = Outcome.FAILED
    try:
        outcome = await _read_stream(client, target, planned, timing, clock)
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError, *MALFORMED) as error:
        timing.error = _in_words(error)
    return _record(planned, timing, outcome, arrival=arrival, end=clock())


async def _read_stream(
    client: httpx2.AsyncClient, target: Target, planned: PlannedRequest, timing: _Timing, clock: Callable[[], float]
) -> Outcome:
    request = client.stream("POST", f"{target.url}/chat/completions", json=target.body(planned), headers=target.headers)
    async with request as response:
        if response.status_code != 200:
            await response.aread()
            timing.error = status_words(response)
            return Outcome.REJECTED if response.status_code in REJECTIONS else Outcome.FAILED
        async for line in response.aiter_lines():
            if line.startswith("data:"):
                _see(line.removeprefix("data:").strip(), timing, clock())
    if timing.error is None and timing.usage is None:
        timing.error = NO_USAGE if timing.is_done else "the stream broke off before its end"
    return Outcome.FAILED if timing.error else Outcome.COMPLETED


def _see(data: str, timing: _Timing, now: float) -> None:
    """One event. Only a piece of text marks a token; a role or an empty delta is none."""
    if data == "[DONE]":
        timing.is_done = True
        return
    event = json.loads(data)
    if "error" in event:
        timing.error = f"error in the stream: {str(event['error'].get('message'))[:120]}"
    if any(_piece_of(choice, timing) for choice in event.get("choices") or ()):
        timing.chunk_times.append(now)
    if usage := event.get("usage"):
        timing.usage = {name: int(usage.get(name) or 0) for name in ("prompt_tokens", "completion_tokens")}


def _piece_of(choice: dict[str, Any], timing: _Timing) -> bool:
    """Whether a token came. Reasoning is generated too, though no next turn repeats it."""
    delta = choice.get("delta") or {}
    if content := delta.get("content"):
        timing.pieces.append(content)
    return bool(content or delta.get("reasoning_content") or delta.get("reasoning"))


def _record(planned: PlannedRequest, timing: _Timing, outcome: Outcome, *, arrival: float, end: float) -> RequestRecord:
    usage = timing.usage or {}
    return RequestRecord(
        index=planned.index,
        arrival=arrival,
        sent=timing.sent,
        outcome=outcome,
        end=end,
        first_token=timing.chunk_times[0] if timing.chunk_times else None,
        last_token=timing.chunk_times[-1] if timing.chunk_times else None,
        prompt_tokens=usage.get("prompt_tokens", 0),
        output_tokens=usage.get("completion_tokens", 0),
        chunk_times=tuple(timing.chunk_times),
        error=timing.error,
        text="".join(timing.pieces),
    )


def _is_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def status_words(response: httpx2.Response) -> str:
    """HTTP 401: and the server's own words, if it has any; no full stop at the end. `response` has been read."""
    words = _message_of(response).strip().rstrip(".")
    return f"HTTP {response.status_code}: {words}" if words else f"HTTP {response.status_code}"


def _message_of(response: httpx2.Response) -> str:
    try:
        return str(response.json()["error"]["message"])[:120]
    except (ValueError, KeyError, TypeError):
        return response.text[:120]


def _in_words(error: Exception) -> str:
    if isinstance(error, httpx2.ConnectError):
        return "the server cannot be reached"
    if isinstance(error, httpx2.TimeoutException):
        return "the server did not answer in time"
    if isinstance(error, json.JSONDecodeError):
        return "the stream holds an event that is no JSON"
    if isinstance(error, httpx2.InvalidURL):
        return "the URL is none that can be asked"
    if isinstance(error, MALFORMED):
        return "the stream holds an event that is not of OpenAI's shape"
    return f"the connection broke off ({type(error).__name__})"
