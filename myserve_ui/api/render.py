"""An answer on its way out: pieces become choices in a frame, and those one object, or chunks sent as events."""

from __future__ import annotations

import hashlib
import logging
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Annotated, NotRequired, Protocol

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response
from typing_extensions import TypedDict

from myserve_ui import __version__
from myserve_ui.api.errors import INTERNAL_MESSAGE, error_reply
from myserve_ui.api.pieces import TOOL_CALLS, AnswerOptions, AnswerReader, Piece
from myserve_ui.api.responses import (
    JsonObject,
    StreamedReply,
    cache_header,
    encode_json,
    json_response,
    while_connected,
)
from myserve_ui.core.model_info import ModelInfo
from myserve_ui.core.outputs import Usage
from myserve_ui.errors import MyServeError
from myserve_ui.serving.request_stream import RequestStream, StreamGroup
from myserve_ui.settings import Settings

logger = logging.getLogger(__name__)

DONE = b"data: [DONE]\n\n"
KEEP_ALIVE = b": keep-alive\n\n"
KEEP_ALIVE_SECONDS = 10.0
"""Proxies commonly cut a connection after 30 to 60 silent seconds."""
NO_EXTRAS: JsonObject = MappingProxyType({})

SETTINGS_THAT_CHANGE_ANSWERS = {
    "model",
    "dtype",
    "device",
    "trust_remote_code",
    "chat_template",
    "force_echo",
    "max_num_seqs",
    "max_num_batched_tokens",
    "max_model_len",
    "kv_cache_gib",
    "threads",
}
"""Some only through rounding: a sum in another order is another sum."""


class CachedTokens(TypedDict):
    cached_tokens: int


class ReplyUsage(TypedDict):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: CachedTokens


class Envelope(TypedDict):
    id: str
    created: int
    """Unix seconds."""
    model: str
    system_fingerprint: str


class ChoiceEnd(TypedDict):
    """How a choice ended, null while it goes on, and its ids if they were asked for."""

    finish_reason: Annotated[str | None, Field(json_schema_extra={"enum": ["stop", "length", TOOL_CALLS, None]})]
    stop_reason: NotRequired[str | int | None]
    token_ids: NotRequired[list[int]]


class Shape(Protocol):
    """How the pieces of an answer are written as choices. `extras` stand beside the choices."""

    whole_name: str
    chunk_name: str

    def whole(self, piece: Piece) -> JsonObject: ...

    def opening(self, index: int) -> JsonObject | None:
        """The first chunk's choice, before any piece; None if there is none."""
        ...

    def chunk(self, piece: Piece) -> JsonObject: ...

    def extras(self) -> JsonObject: ...


@dataclass(frozen=True, slots=True)
class Generation:
    """What a request to generate asked for."""

    start: Callable[[], Awaitable[list[RequestStream]]]
    shape: Callable[[StreamGroup, AnswerOptions], Shape]
    options: AnswerOptions
    id_prefix: str
    include_usage: bool


@dataclass(frozen=True, slots=True)
class ReplyFrame:
    """What every part of one answer repeats."""

    id: str
    created: int
    """Unix seconds."""
    model: str
    system_fingerprint: str

    def as_json(self, object_name: str) -> dict[str, object]:
        return {
            "id": self.id,
            "object": object_name,
            "created": self.created,
            "model": self.model,
            "system_fingerprint": self.system_fingerprint,
        }


class Responder:
    """Answers requests to generate, in the frames of this server."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings.model_dump_json(include=SETTINGS_THAT_CHANGE_ANSWERS)

    async def respond(self, request: Request, asked: Generation, *, stream: bool) -> Response:
        created = int(time.time())
        if not stream:
            return await while_connected(request.receive, self._whole(asked, created))

        async def start() -> StreamGroup:
            return StreamGroup(await asked.start())

        def events(group: StreamGroup) -> AsyncIterator[bytes]:
            return self._rendering(group, asked, created).events()

        return StreamedReply(start, events, media_type="text/event-stream", headers=cache_header)

    async def _whole(self, asked: Generation, created: int) -> Response:
        async with StreamGroup(await asked.start()) as group:
            whole = await self._rendering(group, asked, created).whole()
            return json_response(whole, headers=cache_header(group))

    def _rendering(self, group: StreamGroup, asked: Generation, created: int) -> Rendering:
        model = group.model
        frame = ReplyFrame(f"{asked.id_prefix}-{uuid.uuid4().hex}", created, model.id, self.fingerprint(model))
        reader = AnswerReader(group, asked.options)
        return Rendering(frame, asked.shape(group, asked.options), reader, include_usage=asked.include_usage)

    def fingerprint(self, model: ModelInfo) -> str:
        """Changes with what may change a seeded answer: version, settings, the weights, where and how they run."""
        parts = (__version__, self._settings, model.id, model.dtype, model.device)
        return "fp_" + hashlib.sha256("|".join(map(str, parts)).encode()).hexdigest()[:12]


class Rendering:
    """One answer: what `reader` reads, written in `shape`."""

    def __init__(self, frame: ReplyFrame, shape: Shape, reader: AnswerReader, *, include_usage: bool) -> None:
        self._frame = frame
        self._shape = shape
        self._reader = reader
        self._include_usage = include_usage
        self._envelope = frame.as_json(shape.chunk_name)

    async def whole(self) -> JsonObject:
        """The answer as one object. Raises GenerationFailedError."""
        choices = [self._shape.whole(piece) for piece in await self._reader.whole()]
        rest = {"choices": choices, "usage": usage_json(self._reader.usage)}
        return {**self._frame.as_json(self._shape.whole_name), **rest, **self._shape.extras()}

    async def events(self, *, clock: Callable[[], float] = time.monotonic) -> AsyncIterator[bytes]:
        """Chunks, a finish for each choice, usage if asked for, [DONE]; or an error at the end.

        A comment keeps a connection open that was silent for KEEP_ALIVE_SECONDS.
        """
        try:
            if opening := b"".join(self._opening()):
                yield opening
            last_sent = clock()
            async for piece in self._reader.pieces():
                events = b"".join([self._chunk([self._shape.chunk(part)]) for part in _parts(piece)])
                if events or clock() - last_sent >= KEEP_ALIVE_SECONDS:
                    last_sent = clock()
                    yield events or KEEP_ALIVE
            if self._include_usage:
                yield self._chunk([], usage=self._reader.usage)
            yield DONE
        except MyServeError as error:
            yield data_event(error_reply(error))
        except Exception as error:
            logger.error("unexpected error in a stream", exc_info=error)
            yield data_event(error_reply(MyServeError(INTERNAL_MESSAGE)))

    def _opening(self) -> Iterator[bytes]:
        extras = self._shape.extras()
        for index in range(self._reader.num_choices):
            if (choice := self._shape.opening(index)) is not None:
                yield self._chunk([choice], extras=extras if index == 0 else NO_EXTRAS)

    def _chunk(self, choices: list[JsonObject], usage: Usage | None = None, *, extras: JsonObject = NO_EXTRAS) -> bytes:
        chunk = {**self._envelope, "choices": choices, **extras}
        # OpenAI puts the key on every chunk once usage was asked for, and never otherwise.
        if self._include_usage:
            chunk["usage"] = usage and usage_json(usage)
        return data_event(chunk)


def _parts(piece: Piece) -> Iterator[Piece]:
    """What stands in a chunk of its own: the text, each news of a call, the finish."""
    is_news = bool(piece.text or piece.tokens or piece.token_ids)
    if piece.finish_reason is None and not piece.calls:
        if is_news:
            yield piece
        return
    goes_on = replace(piece, finish_reason=None, calls=())
    bare = replace(goes_on, text="", tokens=(), token_ids=())
    if is_news:
        yield goes_on
    for call in piece.calls:
        yield replace(bare, calls=(call,))
    if piece.finish_reason is not None:
        yield replace(bare, finish_reason=piece.finish_reason)


def data_event(payload: JsonObject) -> bytes:
    """A server-sent event with `payload` as JSON: in ASCII it has no line break, so one line always holds it."""
    return b"data: " + encode_json(payload) + b"\n\n"


def usage_json(usage: Usage) -> ReplyUsage:
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.total_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
    }


def write_end(choice: ChoiceEnd, piece: Piece, *, tells_ids: bool) -> None:
    """Write into `choice` what both shapes have in common."""
    choice["finish_reason"] = piece.finish_reason
    if piece.finish_reason is not None:
        choice["stop_reason"] = piece.stop_reason
    if tells_ids:
        choice["token_ids"] = list(piece.token_ids)
