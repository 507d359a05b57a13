"""What one choice has to say at a time: from outputs of the engine to pieces, which joined are the whole answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from myserve_ui.api.token_alignment import AlignedToken, TokenAligner
from myserve_ui.core.logprobs import TokenLogprob
from myserve_ui.core.outputs import RequestOutput
from myserve_ui.core.tools import ToolCallDelta
from myserve_ui.serving.request_stream import merge_outputs


@dataclass(frozen=True, slots=True)
class Piece:
    """News of one choice."""

    index: int
    text: str = ""
    tokens: tuple[AlignedToken, ...] = ()
    """The tokens of `text`, if log-probabilities were asked for."""
    token_ids: tuple[int, ...] = ()
    """Generated ids, an end token too, if they were asked for."""
    calls: tuple[ToolCallDelta, ...] = ()
    """What is to be called, after the text."""
    finish_reason: str | None = None
    """A word of FinishReason, or "tool_calls"."""
    stop_reason: str | int | None = None

    @property
    def has_news(self) -> bool:
        return bool(self.text or self.tokens or self.token_ids or self.calls)


def join_pieces(pieces: Sequence[Piece]) -> Piece:
    """One piece that says what all `pieces` of one choice say; at least one."""
    return replace(
        pieces[-1],
        text="".join(piece.text for piece in pieces),
        calls=tuple(call for piece in pieces for call in piece.calls),
        tokens=tuple(token for piece in pieces for token in piece.tokens),
        token_ids=tuple(token_id for piece in pieces for token_id in piece.token_ids),
    )


@dataclass(slots=True)
class EchoedPrompt:
    """A prompt that begins the text of its answers, with its scores if they were asked for.

    The engine scores a prompt once, for the first of its answers; all of them tell the scores.
    """

    text: str
    token_ids: tuple[int, ...]
    table: Sequence[bytes] | None
    """Bytes of every token id; None if no scores were asked for."""
    _scores: list[TokenLogprob] = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        return self.table is None or len(self._scores) >= len(self.token_ids) - 1

    def add(self, scores: Iterable[TokenLogprob]) -> None:
        """Take the scores of the next tokens, from the second on."""
        self._scores += scores

    def tokens(self) -> list[AlignedToken]:
        """The prompt's tokens beside their places in its text."""
        if self.table is None:
            return []
        aligner = TokenAligner(self.table)
        ready = aligner.add(self.text, zip(self.token_ids, [None, *self._scores], strict=True))
        return ready + aligner.finish(is_cut=False)


class ChoiceReader:
    """Turns the outputs of one choice into pieces."""

    def __init__(
        self, index: int, *, table: Sequence[bytes] | None, echo: EchoedPrompt | None, tells_ids: bool
    ) -> None:
        """`table`: bytes of every token id, None if no log-probabilities were asked for."""
        self._index = index
        self._tells_ids = tells_ids
        self._echo = echo
        self._held: RequestOutput | None = None
        self._aligner = None if table is None else TokenAligner(table, offset=len(echo.text) if echo else 0)

    def take(self, output: RequestOutput) -> Piece:
        """The piece that `output` makes; what comes before the prompt's scores waits for them."""
        if self._echo is None:
            return self._piece(output)
        self._echo.add(output.prompt_logprobs)
        self._held = output if self._held is None else merge_outputs(self._held, output)
        if not self._echo.is_complete:
            return Piece(self._index)
        echo, self._echo = self._echo, None
        piece = self._piece(self._held)
        return replace(piece, text=echo.text + piece.text, tokens=(*echo.tokens(), *piece.tokens))

    def _piece(self, output: RequestOutput) -> Piece:
        return Piece(
            index=self._index,
            text=output.text_delta,
            tokens=tuple(self._align(output)),
            token_ids=output.token_ids if self._tells_ids else (),
            finish_reason=output.finish_reason,
            stop_reason=output.stop_reason,
        )

    def _align(self, output: RequestOutput) -> list[AlignedToken]:
        if self._aligner is None:
            return []
        tokens = self._aligner.add(output.text_delta, ((entry.token_id, entry) for entry in output.logprobs))
        if output.finish_reason is not None:
            tokens += self._aligner.finish(is_cut=output.stop_reason is not None)
        return tokens
