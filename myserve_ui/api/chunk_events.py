"""One streamed answer as events: chunks, one finish chunk, usage if asked for, [DONE]; or an error at the end."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

from myserve_ui.api.error_replies import INTERNAL_MESSAGE, error_payload
from myserve_ui.api.replies import (
    ReplyFrame,
    chat_choice,
    chat_opening,
    failure_of,
    text_choice,
    usage_json,
)
from myserve_ui.api.sse import DONE, KEEP_ALIVE, data_event
from myserve_ui.api.wire_json import JsonObject
from myserve_ui.core.outputs import FinishReason, RequestOutput, Usage
from myserve_ui.errors import MyServeError

if TYPE_CHECKING:
    from myserve_ui.serving.request_stream import RequestStream

logger = logging.getLogger(__name__)

MakeChoice = Callable[[str, FinishReason | None], JsonObject]


def chat_events(stream: RequestStream, frame: ReplyFrame, *, include_usage: bool) -> AsyncIterator[bytes]:
    """The events of a chat answer; the role comes first, once."""
    events = _ChunkEvents(frame.as_json("chat.completion.chunk"), chat_choice, include_usage=include_usage)
    return events.follow(stream, [chat_opening()])


def text_events(stream: RequestStream, frame: ReplyFrame, *, include_usage: bool) -> AsyncIterator[bytes]:
    """The events of a text completion."""
    return _ChunkEvents(frame.as_json("text_completion"), text_choice, include_usage=include_usage).follow(stream, [])


class _ChunkEvents:
    """The events of one answer, its chunks made by `make_choice`."""

    def __init__(self, envelope: JsonObject, make_choice: MakeChoice, *, include_usage: bool) -> None:
        self._envelope = envelope
        self._make_choice = make_choice
        self._include_usage = include_usage

    async def follow(self, stream: RequestStream, opening: list[JsonObject]) -> AsyncIterator[bytes]:
        """The events of `stream`; an output with nothing to say becomes a keep-alive."""
        try:
            for choice in opening:
                yield self._chunk([choice])
            async for output in stream:
                for event in self._events_of(output):
                    yield event
        except MyServeError as error:
            yield data_event(error_payload(error))
        except Exception as error:
            logger.error("unexpected error in a stream", exc_info=error)
            yield data_event(error_payload(MyServeError(INTERNAL_MESSAGE)))

    def _events_of(self, output: RequestOutput) -> list[bytes]:
        if failure := failure_of(output):
            raise failure
        events = [self._chunk([self._make_choice(output.text_delta, None)])] if output.text_delta else []
        if output.finish_reason is not None:
            events += self._ending(output)
        return events or [KEEP_ALIVE]

    def _ending(self, last: RequestOutput) -> list[bytes]:
        finish = self._chunk([self._make_choice("", last.finish_reason)])
        usage = [self._chunk([], last.usage)] if self._include_usage else []
        return [finish, *usage, DONE]

    def _chunk(self, choices: list[JsonObject], usage: Usage | None = None) -> bytes:
        chunk = {**self._envelope, "choices": choices}
        # OpenAI puts the key on every chunk once usage was asked for, and never otherwise.
        if self._include_usage:
            chunk["usage"] = usage and usage_json(usage)
        return data_event(chunk)
