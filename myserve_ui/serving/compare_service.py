"""One prompt to two precisions or models at once, as one stream of updates."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from enum import StrEnum

from myserve_ui.core.model_info import LoadProgress
from myserve_ui.core.outputs import FinishReason, RequestOutput
from myserve_ui.core.requests import ChatRequest
from myserve_ui.errors import MyServeError
from myserve_ui.serving.chat_service import ChatService
from myserve_ui.serving.request_stream import RequestStream, StreamGroup

SEED_BITS = 31


class Side(StrEnum):
    BASE = "base"
    CANDIDATE = "candidate"

    @property
    def other(self) -> Side:
        return Side.CANDIDATE if self is Side.BASE else Side.BASE


class Timing(StrEnum):
    IN_TURN = "in turn"
    """One after the other: each has the machine for itself, so the speeds mean something."""
    TOGETHER = "together"
    """Both at once: they share the machine."""


@dataclass(frozen=True, slots=True)
class CompareRequest:
    """`chat.model` is put aside; both sides get the same prompt, sampling and seed."""

    chat: ChatRequest
    base: str = ""
    candidate: str = ""
    timing: Timing = Timing.IN_TURN


@dataclass(frozen=True, slots=True)
class SideAnswer:
    """One side's answer so far."""

    model: str
    text: str = ""
    token_ids: tuple[int, ...] = ()
    prompt_token_ids: tuple[int, ...] = ()
    latest: RequestOutput | None = None
    error: str | None = None
    """Why this side has no answer, or no more of it; the other side goes on."""

    @property
    def is_done(self) -> bool:
        return self.error is not None or (self.latest is not None and self.latest.finish_reason is not None)


@dataclass(frozen=True, slots=True)
class CompareUpdate:
    """How both sides stand. `changed` is the side that has news; None while a model loads."""

    answers: dict[Side, SideAnswer]
    changed: Side | None = None
    loading: LoadProgress | None = None


@dataclass(slots=True)
class _Comparison:
    request: CompareRequest
    answers: dict[Side, SideAnswer] = field(default_factory=dict)

    def update(self, side: Side, answer: SideAnswer) -> CompareUpdate:
        self.answers[side] = answer
        return CompareUpdate(dict(self.answers), side)

    def fail(self, side: Side, message: str) -> CompareUpdate:
        return self.update(side, replace(self.answers[side], error=message))

    def see(self, side: Side, output: RequestOutput) -> CompareUpdate:
        answer = self.answers[side]
        failed = output.finish_reason is FinishReason.ERROR
        return self.update(
            side,
            replace(
                answer,
                text=answer.text + output.text_delta,
                token_ids=answer.token_ids + output.token_ids,
                latest=output,
                error=output.error if failed else None,
            ),
        )


class CompareService:
    """Opens two streams through the chat service and reads them as one; leaving ends both."""

    def __init__(self, chat: ChatService) -> None:
        self._chat = chat

    async def compare(self, request: CompareRequest) -> AsyncGenerator[CompareUpdate, None]:
        """Updates until both sides are done.

        Loads what is not loaded. What goes wrong on one side is told in its answer and leaves the other running.
        Raises ModelNotFoundError for a name that is in no catalog.
        """
        names = {Side.BASE: request.base, Side.CANDIDATE: request.candidate}
        request = with_one_seed(request)
        comparison = _Comparison(request, {side: SideAnswer(self._chat.model(names[side]).id) for side in Side})
        async with aclosing(self._load(comparison)) as updates:
            async for update in updates:
                yield update
        groups = [list(Side)] if request.timing is Timing.TOGETHER else [[side] for side in Side]
        for sides in groups:
            async with aclosing(self._run(comparison, sides)) as updates:
                async for update in updates:
                    yield update

    async def _load(self, comparison: _Comparison) -> AsyncGenerator[CompareUpdate, None]:
        for side in Side:
            try:
                async for progress in self._chat.load(comparison.answers[side].model):
                    yield CompareUpdate(dict(comparison.answers), loading=progress)
            except MyServeError as error:
                yield comparison.fail(side, error.message)

    async def _run(self, comparison: _Comparison, sides: list[Side]) -> AsyncGenerator[CompareUpdate, None]:
        """Read the streams of `sides` at once."""
        opened: dict[Side, RequestStream] = {}
        for side in sides:
            if not comparison.answers[side].is_done:
                try:
                    opened[side] = await self._open(comparison, side)
                except MyServeError as error:
                    yield comparison.fail(side, error.message)
        if not opened:
            return
        running = list(opened)
        async with StreamGroup(list(opened.values())) as group:
            async for index, output in group.outputs():
                yield comparison.see(running[index], output)

    async def _open(self, comparison: _Comparison, side: Side) -> RequestStream:
        answer = comparison.answers[side]
        stream = await self._chat.start_chat(replace(comparison.request.chat, model=answer.model))
        comparison.answers[side] = replace(answer, prompt_token_ids=stream.prompt_token_ids)
        return stream


def with_one_seed(request: CompareRequest) -> CompareRequest:
    """`request` with a seed, so that both sides draw alike, and with no cache that would answer for one of them."""
    params = request.chat.params
    seed = secrets.randbits(SEED_BITS) if params.seed is None else params.seed
    chat = replace(request.chat, params=replace(params, seed=seed), cache_response=False, cache_prompt=False)
    return replace(request, chat=chat)
