"""Parts the text of an answer, as it comes, into what is said and what is to be called."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass

from myserve_ui.core.tools import ToolCallDelta, ToolFormat
from myserve_ui.tools.call_bodies import CallBody, CallNews


@dataclass(frozen=True, slots=True)
class AnswerDelta:
    """News of one answer: text, and then calls."""

    text: str = ""
    calls: tuple[ToolCallDelta, ...] = ()


def make_call_id() -> str:
    return f"call_{uuid.uuid4().hex[:24]}"


class ToolCallParser:
    """Reads one answer. Deltas joined are the same however the text is cut into pieces.

    Text is held back while a marker may begin at its end, with the spaces before it: around calls, spaces belong to the
    markup. What begins like a call and is none is told as text, marker and all.
    """

    def __init__(
        self, call_format: ToolFormat, start_body: Callable[[], CallBody], *, make_id: Callable[[], str] = make_call_id
    ) -> None:
        self._format = call_format
        self._start_body = start_body
        self._make_id = make_id
        self._unread = ""
        self._opening = ""
        """Spaces and marker before the call that is being read."""
        self._body: CallBody | None = None
        self._awaits_closing = False
        self._num_calls = 0
        self._has_told_name = False
        self._is_start = True
        self._text = ""
        self._calls: list[ToolCallDelta] = []

    @property
    def has_only_whole_calls(self) -> bool:
        """Whether there are calls, and none that the end of the answer cut."""
        return self._num_calls > 0 and not (self._body is not None and self._has_told_name)

    def add(self, text: str) -> AnswerDelta:
        """Take the next piece of the answer."""
        self._unread += text
        while self._read_on():
            pass
        return self._take_news()

    def finish(self) -> AnswerDelta:
        """The answer has ended; what was held back is told."""
        if self._body is not None:
            unfinished = self._body.finish()
            self._text += "" if unfinished is None else self._opening + unfinished
        elif not self._num_calls:
            self._text += self._unread  # behind a call, spaces and half a marker are markup of one that was cut
        self._unread = ""
        return self._take_news()

    def _take_news(self) -> AnswerDelta:
        delta = AnswerDelta(self._text, tuple(self._calls))
        self._text, self._calls = "", []
        return delta

    def _read_on(self) -> bool:
        """Read one thing; False if more text is needed for the next."""
        if self._body is not None:
            return self._read_call(self._body)
        if self._awaits_closing:
            return self._read_closing()
        return self._find_call()

    def _find_call(self) -> bool:
        said, opening, self._unread = self._format.find_call(self._unread, is_start=self._is_start)
        self._text += said
        self._is_start = self._is_start and not said and opening is None
        if opening is None:
            return False
        self._opening, self._body = opening, self._start_body()
        return True

    def _read_call(self, body: CallBody) -> bool:
        if not self._unread:
            return False
        news, self._unread = body.add(self._unread), ""
        self._tell(news)
        if news.rest is None:
            return False
        is_call = self._has_told_name
        self._text += "" if is_call else self._opening + news.unread
        self._unread, self._body, self._has_told_name = news.rest, None, False
        self._awaits_closing = is_call and bool(self._format.end)
        return True

    def _read_closing(self) -> bool:
        """Take the closing marker; where a model leaves it out, the call is whole all the same."""
        begun = self._unread.lstrip()
        if begun.startswith(self._format.end):
            self._unread = begun.removeprefix(self._format.end)
        elif self._format.end.startswith(begun):
            return False
        self._awaits_closing = False
        return True

    def _tell(self, news: CallNews) -> None:
        if news.name is not None:
            self._calls.append(ToolCallDelta(self._num_calls, self._make_id(), news.name))
            self._num_calls += 1
            self._has_told_name = True
        if news.arguments:
            self._calls.append(ToolCallDelta(self._num_calls - 1, arguments=news.arguments))
