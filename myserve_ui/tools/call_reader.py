"""Parts the text of an answer, as it comes, into what is said and what is to be called."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass

from myserve_ui.core.tool_format import ToolFormat
from myserve_ui.core.tools import ToolCallDelta
from myserve_ui.tools.call_bodies import CallBody, CallNews


@dataclass(frozen=True, slots=True)
class AnswerDelta:
    """News of one answer: text, and then calls."""

    text: str = ""
    calls: tuple[ToolCallDelta, ...] = ()


def make_call_id() -> str:
    return f"call_{uuid.uuid4().hex[:24]}"


class ToolCallReader:
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
        self._has_begun = False
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
        elif not self._awaits_closing and not (self._num_calls and self._format.begin.startswith(self._unread.strip())):
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
        return self._read_marker() if self._format.begin else self._read_bare_call()

    def _read_marker(self) -> bool:
        at = self._unread.find(self._format.begin)
        if at < 0:
            kept = _possible_start(self._unread, self._format.begin)
            self._say(self._unread[: len(self._unread) - kept])
            return False
        before = self._unread[:at].rstrip()
        end = at + len(self._format.begin)
        self._opening, rest = self._unread[len(before) : end], self._unread[end:]
        self._say(before)
        self._unread, self._body = rest, self._start_body()
        return True

    def _read_bare_call(self) -> bool:
        """Without a marker, only the very beginning of an answer can be a call."""
        begun = self._unread.lstrip()
        if self._has_begun or (begun and not begun.startswith("{")):
            self._has_begun = True
            kept = len(self._unread) - len(self._unread.rstrip()) if self._num_calls else 0
            self._say(self._unread[: len(self._unread) - kept])
            return False
        if not begun:
            return False
        self._has_begun = True
        self._opening = self._unread[: len(self._unread) - len(begun)]
        self._unread, self._body = begun, self._start_body()
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

    def _say(self, text: str) -> None:
        self._text += text
        self._unread = self._unread[len(text) :]


def _possible_start(text: str, marker: str) -> int:
    """Length of the end of `text` that may turn out to stand before or in `marker`."""
    longest = min(len(text), len(marker) - 1)
    begun = next((length for length in range(longest, 0, -1) if marker.startswith(text[-length:])), 0)
    before = text[: len(text) - begun]
    return begun + len(before) - len(before.rstrip())
