"""One streamed answer as events: chunks, a finish per choice, usage if asked for, [DONE]; or an error at the end."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from types import MappingProxyType

from myserve_ui.api.answer_pieces import Piece
from myserve_ui.api.answer_reader import AnswerReader
from myserve_ui.api.answer_shapes import AnswerShape, Choice
from myserve_ui.api.error_replies import INTERNAL_MESSAGE, error_payload
from myserve_ui.api.replies import ReplyFrame, usage_json
from myserve_ui.api.sse import DONE, KEEP_ALIVE, data_event
from myserve_ui.api.wire_json import JsonObject
from myserve_ui.core.outputs import Usage
from myserve_ui.errors import MyServeError

logger = logging.getLogger(__name__)

NO_EXTRAS: JsonObject = MappingProxyType({})


class ChunkEvents:
    """The events of one answer, its chunks written in `shape`."""

    def __init__(self, frame: ReplyFrame, shape: AnswerShape, *, include_usage: bool) -> None:
        self._envelope = frame.as_json(shape.chunk_name)
        self._shape = shape
        self._include_usage = include_usage

    async def follow(self, reader: AnswerReader) -> AsyncIterator[bytes]:
        """The events of all choices; a piece without news becomes a keep-alive."""
        try:
            for event in self._opening(reader.num_choices):
                yield event
            async for piece in reader.pieces():
                for event in self._events_of(piece):
                    yield event
            if self._include_usage:
                yield self._chunk([], reader.usage)
            yield DONE
        except MyServeError as error:
            yield data_event(error_payload(error))
        except Exception as error:
            logger.error("unexpected error in a stream", exc_info=error)
            yield data_event(error_payload(MyServeError(INTERNAL_MESSAGE)))

    def _opening(self, num_choices: int) -> Iterator[bytes]:
        extras = self._shape.extras()
        for index in range(num_choices):
            if (choice := self._shape.opening(index)) is not None:
                yield self._chunk([choice], extras=extras if index == 0 else {})

    def _events_of(self, piece: Piece) -> list[bytes]:
        events = [self._chunk([self._shape.chunk(part)]) for part in _parts(piece)]
        return events or [KEEP_ALIVE]

    def _chunk(self, choices: list[Choice], usage: Usage | None = None, *, extras: JsonObject = NO_EXTRAS) -> bytes:
        chunk = {**self._envelope, "choices": choices, **extras}
        # OpenAI puts the key on every chunk once usage was asked for, and never otherwise.
        if self._include_usage:
            chunk["usage"] = usage and usage_json(usage)
        return data_event(chunk)


def _parts(piece: Piece) -> Iterator[Piece]:
    """What stands in a chunk of its own: the text, each news of a call, the finish."""
    without_finish = replace(piece, finish_reason=None)
    if (said := replace(without_finish, calls=())).has_news:
        yield said
    for call in piece.calls:
        yield replace(without_finish, text="", tokens=(), token_ids=(), calls=(call,))
    if piece.finish_reason is not None:
        yield replace(piece, text="", tokens=(), token_ids=(), calls=())
