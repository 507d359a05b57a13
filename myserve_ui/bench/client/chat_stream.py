"""What one streamed answer of a foreign server holds: when its pieces came, and counts that fit what was sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from myserve_ui.bench.client.event_stream import DONE, ServerEvent
from myserve_ui.bench.client.foreign_words import (
    NOT_JSON,
    ForeignAnswerError,
    error_words,
    one_line,
    read_json,
    shown,
    whole_number,
)

NO_USAGE = "the stream ended without usage, so its tokens cannot be counted"
BROKE_OFF = "the stream broke off before its end"
NO_JSON = "the stream holds an event that is no JSON"
OTHER_SHAPE = "the stream holds an event that is not of OpenAI's shape"
HIDDEN_PROMPT_TOKENS = 2**17
"""That a server may put before a prompt of ours: its template, a proxy's own instructions."""
MOST_TOKENS = 2**53
GENERATED = ("reasoning_content", "reasoning", "refusal")
"""What is generated beside the answer: it is a token too, though no next turn repeats it."""


@dataclass(frozen=True, slots=True)
class StreamBounds:
    """How much an answer of so many tokens may hold, framing and all, before it is no answer any more."""

    event_bytes: int
    stream_bytes: int
    pieces: int
    tokens: int


def bounds_for(max_tokens: int) -> StreamBounds:
    """Generous: some servers stream letter by letter, some repeat all that came before in every event."""
    return StreamBounds(
        event_bytes=2**18 + 256 * max_tokens,
        stream_bytes=2**22 + 2**14 * max_tokens,
        pieces=1024 + 16 * max_tokens,
        tokens=max_tokens,
    )


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """What a server's usage says, checked."""

    prompt: int
    output: int
    cached: int | None
    """Of the prompt's, those that were in the server's cache; None where it does not say."""


@dataclass(slots=True)
class ChatStream:
    """Notes of one stream while it is read. Methods raise ForeignAnswerError for what cannot be."""

    bounds: StreamBounds
    piece_times: list[float] = field(default_factory=list)
    received: int = 0
    """Bytes."""
    has_events: bool = False
    error: str | None = None
    done_at: float | None = None
    """When the server said that this was all."""
    _pieces: list[str] = field(default_factory=list)
    _usage: Any = None

    @property
    def is_done(self) -> bool:
        return self.done_at is not None

    @property
    def is_over(self) -> bool:
        """Whether nothing that may still come matters."""
        return self.is_done or self.error is not None

    @property
    def text(self) -> str:
        """The answer; both halves of a character that came apart are one, and a lone half is none."""
        return "".join(self._pieces).encode("utf-16", "surrogatepass").decode("utf-16", "replace")

    def count_bytes(self, number: int) -> None:
        self.received += number
        if self.received > self.bounds.stream_bytes:
            raise ForeignAnswerError(
                f"the stream is longer than {self.bounds.stream_bytes:,} bytes, for {self.bounds.tokens:,} tokens"
            )

    def see(self, event: ServerEvent, now: float) -> None:
        """One event. Only a piece of text marks a token; a role or an empty delta is none."""
        self.has_events = True
        if self.is_done:
            return
        if event.text == DONE:
            self.done_at = now
        elif event.name == "error":
            error = event.text if event.value is NOT_JSON else event.value
            self._fail(error_words(error) or error_words({"error": error}) or "")
        elif event.value is NOT_JSON:
            if event.name in ("", "message"):
                raise ForeignAnswerError(NO_JSON)
        elif isinstance(event.value, Mapping):
            self._see_chunk(event.value, now)
        elif event.name in ("", "message"):
            raise ForeignAnswerError(OTHER_SHAPE)

    def counts(self, sent: int) -> TokenCounts:
        """The counts of a whole stream after `sent` bytes of a request; raises with the reason if they cannot be."""
        if self._usage is None:
            raise ForeignAnswerError(NO_USAGE if self.is_done else BROKE_OFF)
        counts = read_counts(self._usage)
        if counts.output > self.bounds.tokens:
            raise ForeignAnswerError(
                f"usage claims {counts.output:,} completion tokens, and at most {self.bounds.tokens:,} were asked for"
            )
        if counts.output > self.received:
            raise ForeignAnswerError(
                f"usage claims {counts.output:,} completion tokens of a stream of {self.received:,} bytes"
            )
        if counts.prompt > sent + HIDDEN_PROMPT_TOKENS:
            raise ForeignAnswerError(f"usage claims {counts.prompt:,} prompt tokens for a request of {sent:,} bytes")
        if self.piece_times and not counts.output:
            raise ForeignAnswerError("usage claims no completion tokens, though text came")
        return counts

    def _see_chunk(self, chunk: Mapping[str, object], now: float) -> None:
        if (words := error_words(chunk)) is not None:
            self._fail(words)
        choices = chunk.get("choices") or ()
        if not isinstance(choices, list | tuple):
            raise ForeignAnswerError(OTHER_SHAPE)
        if sum(map(self._take_piece, choices)):
            self.piece_times.append(now)
            if len(self.piece_times) > self.bounds.pieces:
                raise ForeignAnswerError(
                    f"the stream has more than {self.bounds.pieces:,} pieces of text, for {self.bounds.tokens:,} tokens"
                )
        if (usage := chunk.get("usage")) is not None and usage != {}:
            self._usage = usage

    def _take_piece(self, choice: Any) -> bool:
        """Whether a token came."""
        delta = choice.get("delta") if isinstance(choice, Mapping) else choice
        if delta is None and isinstance(choice, Mapping):
            delta = {}
        if not isinstance(delta, Mapping):
            raise ForeignAnswerError(OTHER_SHAPE)
        if choice.get("finish_reason") == "error":
            self._fail("the server ended the answer with an error")
        content, others = text_of(delta.get("content")), [delta.get(name) for name in GENERATED]
        if content.answer:
            self._pieces.append(content.answer)
        return bool(content.answer or content.thought or any(isinstance(other, str) and other for other in others))

    def _fail(self, words: str) -> None:
        """The first error is the reason; what follows it is its echo."""
        self.error = self.error or (f"error in the stream: {words}" if words else "error in the stream")


@dataclass(frozen=True, slots=True)
class Content:
    """What a delta's content brought."""

    answer: str
    thought: bool = False


def text_of(content: Any) -> Content:
    """A text, or parts of which some are text, as Mistral's models with thoughts have it. Raises ForeignAnswerError."""
    if content is None or isinstance(content, str):
        return Content(content or "")
    if not isinstance(content, list) or not all(isinstance(part, str | Mapping) for part in content):
        raise ForeignAnswerError(OTHER_SHAPE)
    texts = [part if isinstance(part, str) else part.get("text") for part in content]
    answer = "".join(text for text in texts if isinstance(text, str))
    return Content(answer, any(isinstance(part, Mapping) and part.get("thinking") for part in content))


def read_counts(usage: Any) -> TokenCounts:
    """The numbers of a usage. Raises ForeignAnswerError that names the one that is none."""
    if not isinstance(usage, Mapping):
        raise ForeignAnswerError(f"usage of the stream is {shown(usage)}, where an object with counts should be")
    found = {}
    for name in ("prompt_tokens", "completion_tokens"):
        if (number := whole_number(usage.get(name), most=MOST_TOKENS)) is None:
            raise ForeignAnswerError(f"{name} of the stream's usage is {shown(usage.get(name))}, which is no count")
        found[name] = number
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, Mapping) else None
    prompt = found["prompt_tokens"]
    return TokenCounts(prompt, found["completion_tokens"], whole_number(cached, most=prompt))


def why_no_stream(strays: bytes, content_type: str) -> str:
    """What came instead of events, as the reason why a request failed."""
    text = strays.decode("utf-8", errors="replace").strip()
    if (words := error_words(read_json(text))) is not None:
        return f"the server answered with an error: {words}" if words else "the server answered with an error"
    kind = one_line(content_type.partition(";")[0], 40)
    if text[:1] == "<":
        return "the server answered with a page of HTML, and not with a stream"
    if text[:1] in ("{", "["):
        return "the server answered with JSON in one piece, and not with a stream"
    return f"the server answered with {kind or 'something else'}, and not with a stream of events"
