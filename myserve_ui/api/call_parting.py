"""Parts the pieces of a choice whose text may hold calls: text here, calls there, and a finish that says so."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace

from myserve_ui.api.answer_pieces import Piece
from myserve_ui.api.token_alignment import AlignedToken
from myserve_ui.core.outputs import FinishReason
from myserve_ui.tools.call_reader import AnswerDelta, ToolCallReader

TOOL_CALLS = "tool_calls"
"""How a choice ended that wants something called."""


class CallParting:
    """Parts the pieces of one choice."""

    def __init__(self, reader: ToolCallReader) -> None:
        self._reader = reader
        self._tokens = _SaidTokens()

    def part(self, piece: Piece) -> Piece:
        """What `piece` says and calls, as far as that is certain; a last piece makes all of it certain."""
        delta = self._reader.add(piece.text)
        finish = piece.finish_reason
        if finish is not None:
            last = self._reader.finish()
            delta = AnswerDelta(delta.text + last.text, delta.calls + last.calls)
            if finish == FinishReason.STOP and self._reader.has_only_whole_calls:
                finish = TOOL_CALLS
        tokens = self._tokens.take(piece.tokens, delta, is_last=finish is not None)
        return replace(piece, text=delta.text, calls=delta.calls, tokens=tokens, finish_reason=finish)


class _SaidTokens:
    """Keeps the tokens of the text before the first call; those of calls have no place in the content's scores."""

    def __init__(self) -> None:
        self._waiting: deque[AlignedToken] = deque()
        self._num_said = 0
        self._has_called = False

    def take(self, tokens: Iterable[AlignedToken], delta: AnswerDelta, *, is_last: bool) -> tuple[AlignedToken, ...]:
        """The tokens of `delta.text`, from those that came so far."""
        if self._has_called:
            return ()
        self._waiting += tokens
        self._num_said += len(delta.text)
        self._has_called = bool(delta.calls)
        if is_last and not self._has_called:
            return tuple(self._waiting)
        return tuple(self._release())

    def _release(self) -> Iterator[AlignedToken]:
        while self._waiting and (token := self._waiting[0]).offset < self._num_said:
            said = token.data.decode("utf-8", errors="replace")[: self._num_said - token.offset]
            is_whole = token.offset + _length(token) <= self._num_said
            if not (is_whole or self._has_called):
                return
            self._waiting.popleft()
            yield token if is_whole else replace(token, data=said.encode())


def _length(token: AlignedToken) -> int:
    return max(len(token.data.decode("utf-8", errors="ignore")), 1)
