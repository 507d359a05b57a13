"""Signs of life in a stream with nothing to say: comments, and not many of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import cast

from myserve_ui.api.chat.routes import ChatShape
from myserve_ui.api.pieces import AnswerOptions, AnswerReader, Piece
from myserve_ui.api.render import DONE, KEEP_ALIVE, Rendering, ReplyFrame, data_event
from myserve_ui.serving.request_stream import StreamGroup
from tests.api.scripted_service import MODEL, ScriptedService, ScriptedStream

SAID, SILENT = Piece(0, "a"), Piece(0)


class Replay:
    """A reader whose pieces come at given times, and the clock that says so."""

    num_choices = 1

    def __init__(self, pieces: list[tuple[float, Piece]]) -> None:
        self._pieces = pieces
        self._now = 0.0

    def clock(self) -> float:
        return self._now

    async def pieces(self) -> AsyncIterator[Piece]:
        for moment, piece in self._pieces:
            self._now = moment
            yield piece


async def events(pieces: list[tuple[float, Piece]]) -> list[bytes]:
    """What is sent for `pieces` after the opening."""
    reader = Replay(pieces)
    group = StreamGroup([ScriptedStream(ScriptedService(), MODEL)])  # type: ignore[list-item]
    shape = ChatShape(group, AnswerOptions())
    frame = ReplyFrame("chatcmpl-1", 0, "tiny", "fp_1")
    rendering = Rendering(frame, shape, cast(AnswerReader, reader), include_usage=False)
    sent = [event async for event in rendering.events(clock=reader.clock)]
    assert sent[-1] == DONE
    return sent[1:-1]


async def test_keep_alives_come_only_after_silence() -> None:
    beats = [(float(second), SILENT) for second in range(1, 26)]
    assert await events(beats) == [KEEP_ALIVE, KEEP_ALIVE]


async def test_an_event_starts_the_silence_anew() -> None:
    said, *rest = await events([(9.0, SAID), (15.0, SILENT), (18.9, SILENT), (19.0, SILENT)])
    assert b'"content":"a"' in said
    assert rest == [KEEP_ALIVE]


def test_an_event_is_one_line_of_ascii_and_a_blank_line() -> None:
    assert data_event({"a": "é\u2028"}) == b'data: {"a":"\\u00e9\\u2028"}\n\n'
