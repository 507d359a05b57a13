"""One streamed answer as events: chunks, one finish chunk, usage if asked for, [DONE]; or an error at the end."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class ChunkShape:
    """How the chunks of one route look."""

    object_name: str
    choice: Callable[[str, FinishReason | None], JsonObject]
    opening: tuple[JsonObject, ...] = ()
    """Choices sent before any text."""


CHAT_CHUNKS = ChunkShape("chat.completion.chunk", chat_choice, (chat_opening(),))
TEXT_CHUNKS = ChunkShape("text_completion", text_choice)


class ChunkEvents:
    """The events of one answer in one shape."""

    def __init__(self, frame: ReplyFrame, shape: ChunkShape, *, include_usage: bool) -> None:
        self._envelope = frame.as_json(shape.object_name)
        self._shape = shape
        self._include_usage = include_usage

    async def follow(self, stream: RequestStream) -> AsyncIterator[bytes]:
        """The events of `stream`; an output with nothing to say becomes a keep-alive."""
        try:
            for choice in self._shape.opening:
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
        events = [self._chunk([self._shape.choice(output.text_delta, None)])] if output.text_delta else []
        if output.finish_reason is not None:
            events += self._ending(output)
        return events or [KEEP_ALIVE]

    def _ending(self, last: RequestOutput) -> list[bytes]:
        finish = self._chunk([self._shape.choice("", last.finish_reason)])
        usage = [self._chunk([], last.usage)] if self._include_usage else []
        return [finish, *usage, DONE]

    def _chunk(self, choices: list[JsonObject], usage: Usage | None = None) -> bytes:
        chunk = {**self._envelope, "choices": choices}
        # OpenAI puts the key on every chunk once usage was asked for, and never otherwise.
        if self._include_usage:
            chunk["usage"] = usage and usage_json(usage)
        return data_event(chunk)
