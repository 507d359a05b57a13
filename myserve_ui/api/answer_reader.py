"""Reads all choices of one request as pieces, and knows the usage of all of them together."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from myserve_ui.api.answer_pieces import ChoiceReader, EchoedPrompt, Piece, join_pieces
from myserve_ui.api.call_parting import CallParting
from myserve_ui.core.outputs import FinishReason, RequestOutput, Usage
from myserve_ui.errors import EngineDeadError, GenerationFailedError, MyServeError, ShuttingDownError

if TYPE_CHECKING:
    from myserve_ui.serving.stream_group import StreamGroup

UNAVAILABLE: Mapping[str, type[MyServeError]] = MappingProxyType(
    {"engine_dead": EngineDeadError, "shutting_down": ShuttingDownError}
)
"""Failures that are the service's, not the request's: 503 where the status is not sent yet."""
ENDED_EARLY = "The server ended this request before the answer was complete; send it again."


@dataclass(frozen=True, slots=True)
class AnswerWishes:
    """What a client wants to be told beside the text."""

    choices_per_prompt: int = 1
    logprobs: bool = False
    token_ids: bool = False
    echo: Sequence[str | tuple[int, ...]] = ()
    """The prompts that the answers begin with; empty for none."""


class AnswerReader:
    """The choices of `group`; prompt i has the choices from i * choices_per_prompt on."""

    def __init__(self, group: StreamGroup, wishes: AnswerWishes) -> None:
        self._group = group
        self._choices_per_prompt = wishes.choices_per_prompt
        self._usages: dict[int, Usage] = {}
        table = group.streams[0].tokenizer.token_bytes() if wishes.logprobs else None
        echoes = [self._echoed_prompt(number, prompt, table) for number, prompt in enumerate(wishes.echo)]
        self._readers = [
            ChoiceReader(
                index,
                table=table,
                echo=echoes[index // wishes.choices_per_prompt] if echoes else None,
                tells_ids=wishes.token_ids,
            )
            for index in range(len(group.streams))
        ]
        self._partings = [
            CallParting(stream.tools.start_reader()) if stream.tools else None for stream in group.streams
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
            yield self._read(index, output)
        if unfinished:
            raise GenerationFailedError(ENDED_EARLY)

    async def whole(self) -> list[Piece]:
        """Each choice as one piece, in the order of their index. Raises GenerationFailedError."""
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

    def _read(self, index: int, output: RequestOutput) -> Piece:
        piece = self._readers[index].take(output)
        parting = self._partings[index]
        return piece if parting is None else parting.part(piece)

    def _echoed_prompt(self, number: int, prompt: str | tuple[int, ...], table: Sequence[bytes] | None) -> EchoedPrompt:
        stream = self._group.streams[number * self._choices_per_prompt]
        text = prompt if isinstance(prompt, str) else stream.tokenizer.decode(prompt)
        return EchoedPrompt(text, stream.prompt_token_ids, table)


def failure_of(output: RequestOutput) -> MyServeError | None:
    """What went wrong if `output` ended its request for a reason that is no answer; never a made-up "stop"."""
    if output.finish_reason is FinishReason.ERROR:
        kind = UNAVAILABLE.get(output.error_code or "", GenerationFailedError)
        return kind(output.error or ENDED_EARLY)
    if output.finish_reason is FinishReason.ABORT:
        return GenerationFailedError(ENDED_EARLY)
    return None
