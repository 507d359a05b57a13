"""What the choices of a request have to say at a time: outputs of the engine in, pieces of the answer out."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from myserve_ui.api.logprobs import AlignedToken, TokenAligner
from myserve_ui.core.outputs import FinishReason, RequestOutput, TokenLogprob, Usage, join_outputs
from myserve_ui.core.tools import ToolCallDelta
from myserve_ui.errors import EngineDeadError, GenerationFailedError, MyServeError, ShuttingDownError
from myserve_ui.serving.request_stream import RequestStream, StreamGroup
from myserve_ui.tools.call_parser import AnswerDelta, ToolCallParser

TOOL_CALLS = "tool_calls"
"""How a choice ended that wants something called."""
UNAVAILABLE: Mapping[str, type[MyServeError]] = MappingProxyType(
    {"engine_dead": EngineDeadError, "shutting_down": ShuttingDownError}
)
"""Failures that are the service's, not the request's: 503 where the status is not sent yet."""
ENDED_EARLY = "The server ended this request before the answer was complete; send it again."


@dataclass(frozen=True, slots=True)
class AnswerOptions:
    """What a client asked to be told, beside the text of one choice."""

    choices_per_prompt: int = 1
    logprobs: bool = False
    token_ids: bool = False
    echo: Sequence[str | tuple[int, ...]] = ()
    """The prompts that the answers begin with; empty for none."""


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


def join_pieces(pieces: Sequence[Piece]) -> Piece:
    """One piece that says what all `pieces` of one choice say; at least one."""
    return replace(
        pieces[-1],
        text="".join(piece.text for piece in pieces),
        calls=tuple(call for piece in pieces for call in piece.calls),
        tokens=tuple(token for piece in pieces for token in piece.tokens),
        token_ids=tuple(token_id for piece in pieces for token_id in piece.token_ids),
    )


class AnswerReader:
    """Reads all choices of `group`; prompt i has the choices from i * choices_per_prompt on."""

    def __init__(self, group: StreamGroup, options: AnswerOptions) -> None:
        self._group = group
        self._choices_per_prompt = options.choices_per_prompt
        self._usages: dict[int, Usage] = {}
        table = group.streams[0].tokenizer.token_bytes() if options.logprobs else None
        firsts = group.streams[:: options.choices_per_prompt]
        echoes = [_echoed_prompt(*pair, table) for pair in zip(options.echo, firsts, strict=False)]
        self._readers = [
            ChoiceReader(
                index,
                table=table,
                echo=echoes[index // options.choices_per_prompt] if echoes else None,
                calls=stream.tools.start_parser() if stream.tools else None,
                tells_ids=options.token_ids,
            )
            for index, stream in enumerate(group.streams)
        ]

    @property
    def num_choices(self) -> int:
        return len(self._readers)

    async def pieces(self) -> AsyncIterator[Piece]:
        """Pieces of all choices as they come; one without news is a sign of life.

        Raises GenerationFailedError if a choice cannot be finished; never makes up an end.
        """
        unfinished = len(self._readers)
        async for index, output in self._group.outputs():
            if failure := failure_of(output):
                raise failure
            unfinished -= output.finish_reason is not None
            self._usages[index] = output.usage
            yield self._readers[index].read(output)
        if unfinished:
            raise GenerationFailedError(ENDED_EARLY)

    async def whole(self) -> list[Piece]:
        """Each choice as one piece, in the order of their index. Raises as `pieces`."""
        pieces: list[list[Piece]] = [[] for _ in self._readers]
        async for piece in self.pieces():
            pieces[piece.index].append(piece)
        return [join_pieces(of_choice) for of_choice in pieces]

    @property
    def usage(self) -> Usage:
        """Tokens of all choices so far; a prompt counts once, however many choices it has."""
        firsts = [usage for index, usage in self._usages.items() if index % self._choices_per_prompt == 0]
        return Usage(
            prompt_tokens=sum(usage.prompt_tokens for usage in firsts),
            completion_tokens=sum(usage.completion_tokens for usage in self._usages.values()),
            cached_tokens=sum(usage.cached_tokens for usage in firsts),
        )


def failure_of(output: RequestOutput) -> MyServeError | None:
    """What went wrong if `output` ended its request for a reason that is no answer; never a made-up "stop"."""
    if output.finish_reason is FinishReason.ERROR:
        kind = UNAVAILABLE.get(output.error_code or "", GenerationFailedError)
        return kind(output.error or ENDED_EARLY)
    if output.finish_reason is FinishReason.ABORT:
        return GenerationFailedError(ENDED_EARLY)
    return None


class ChoiceReader:
    """Turns the outputs of one choice into pieces."""

    def __init__(
        self,
        index: int,
        *,
        table: Sequence[bytes] | None,
        echo: EchoedPrompt | None,
        calls: ToolCallParser | None,
        tells_ids: bool,
    ) -> None:
        """`table`: bytes of every token id, None if no log-probabilities were asked for."""
        self._index = index
        self._echo = echo
        self._held: RequestOutput | None = None
        self._aligner = None if table is None else TokenAligner(table, offset=len(echo.text) if echo else 0)
        self._calls = None if calls is None else CallSplitter(calls)
        self._tells_ids = tells_ids

    def read(self, output: RequestOutput) -> Piece:
        """The piece that `output` makes; what comes before the prompt's scores waits for them."""
        piece = self._piece(output) if self._echo is None else self._after_the_prompt(self._echo, output)
        return piece if self._calls is None else self._calls.split(piece)

    def _piece(self, output: RequestOutput) -> Piece:
        return Piece(
            self._index,
            output.text_delta,
            () if self._aligner is None else _align(self._aligner, output),
            output.token_ids if self._tells_ids else (),
            finish_reason=output.finish_reason,
            stop_reason=output.stop_reason,
        )

    def _after_the_prompt(self, echo: EchoedPrompt, output: RequestOutput) -> Piece:
        echo.add(output.prompt_logprobs)
        self._held = output if self._held is None else join_outputs([self._held, output])
        if not echo.is_complete:
            return Piece(self._index)
        self._echo = None
        piece = self._piece(self._held)
        return replace(piece, text=echo.text + piece.text, tokens=(*echo.tokens(), *piece.tokens))


def _align(aligner: TokenAligner, output: RequestOutput) -> tuple[AlignedToken, ...]:
    tokens = aligner.add(output.text_delta, ((entry.token_id, entry) for entry in output.logprobs))
    if output.finish_reason is not None:
        tokens += aligner.finish(is_cut=output.stop_reason is not None)
    return tuple(tokens)


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


def _echoed_prompt(prompt: str | tuple[int, ...], stream: RequestStream, table: Sequence[bytes] | None) -> EchoedPrompt:
    text = prompt if isinstance(prompt, str) else stream.tokenizer.decode(prompt)
    return EchoedPrompt(text, stream.prompt_token_ids, table)


class CallSplitter:
    """Splits the pieces of a choice whose text may hold calls: text here, calls there, and a finish that says so."""

    def __init__(self, parser: ToolCallParser) -> None:
        self._parser = parser
        self._waiting: deque[AlignedToken] = deque()
        """Tokens whose text may yet turn out to be a call's, which has no place in the content's scores."""
        self._num_said = 0
        self._has_called = False

    def split(self, piece: Piece) -> Piece:
        """What `piece` says and calls, as far as that is certain; a last piece makes all of it certain."""
        delta = self._parser.add(piece.text)
        finish = piece.finish_reason
        if finish is not None:
            last = self._parser.finish()
            delta = AnswerDelta(delta.text + last.text, delta.calls + last.calls)
            if finish == FinishReason.STOP and self._parser.has_only_whole_calls:
                finish = TOOL_CALLS
        tokens = self._said_tokens(piece.tokens, delta, is_last=finish is not None)
        return replace(piece, text=delta.text, calls=delta.calls, tokens=tokens, finish_reason=finish)

    def _said_tokens(
        self, tokens: Iterable[AlignedToken], delta: AnswerDelta, *, is_last: bool
    ) -> tuple[AlignedToken, ...]:
        """The tokens of `delta.text`, from those that came so far; none after the first call."""
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
            is_whole = token.offset + _num_chars(token) <= self._num_said
            if not (is_whole or self._has_called):
                return
            self._waiting.popleft()
            yield token if is_whole else replace(token, data=said.encode())


def _num_chars(token: AlignedToken) -> int:
    return max(len(token.data.decode("utf-8", errors="ignore")), 1)
