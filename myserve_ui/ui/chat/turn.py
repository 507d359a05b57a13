"""Plays one turn of a chat through the service and says, view by view, what the page shows. Knows no Gradio."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from enum import StrEnum

from myserve_ui.core.model_info import LoadState, ModelInfo
from myserve_ui.core.outputs import FinishReason, RequestOutput
from myserve_ui.core.requests import ChatRequest, Message
from myserve_ui.core.sampling_params import SamplingParams
from myserve_ui.errors import ContextLengthExceededError, MyServeError
from myserve_ui.serving.chat_service import ChatService
from myserve_ui.serving.request_stream import RequestStream
from myserve_ui.ui.chat.history import Chat, Note, assistant_turn, open_note, pending_note, spoken, user_turn
from myserve_ui.ui.shared.streams import frames
from myserve_ui.ui.shared.words import answer_details, answer_line, load_line, progress_line


class Phase(StrEnum):
    SENDING = "sending"
    """On its way; the service may still refuse it."""
    LOADING = "loading"
    """Taken, and waiting for the weights."""
    RUNNING = "running"
    DONE = "done"
    REFUSED = "refused"
    """Never accepted; what was typed is still with the writer, in the box or in the chat."""


@dataclass(frozen=True, slots=True)
class Question:
    """A user turn to be answered."""

    before: Chat
    """What the page shows again if the turn is refused at once."""
    earlier: Chat
    """The conversation that the turn continues."""
    text: str
    system_prompt: str
    model: str
    params: SamplingParams

    def request(self) -> ChatRequest:
        """What the service is asked: the system prompt, what was said, and the new turn."""
        system = (Message("system", self.system_prompt),) if self.system_prompt.strip() else ()
        messages = (*system, *spoken(self.earlier), Message("user", self.text))
        return ChatRequest(messages, model=self.model, params=self.params)


@dataclass(frozen=True, slots=True)
class View:
    """The page at one moment of a turn."""

    chat: Chat
    phase: Phase
    used_tokens: int = 0
    """Prompt and answer together; 0 while nothing was computed."""
    error: str | None = None


async def play_turn(
    service: ChatService, question: Question, *, clock: Callable[[], float] = time.monotonic
) -> AsyncGenerator[View, None]:
    """Views of the turn, the last one DONE or REFUSED. Closing the iterator aborts the request."""
    asked, kept = [*question.earlier, user_turn(question.text)], question.before
    try:
        request = question.request()
        yield View([*asked, pending_note("sending")], Phase.SENDING)
        async with aclosing(_load(service, question)) as progress:
            async for line in progress:
                kept = asked
                yield View([*asked, pending_note(line)], Phase.LOADING)
        stream = await _start(service, request)
    except MyServeError as error:
        yield View([*kept, open_note("Not sent", error.message)], Phase.REFUSED, error=error.message)
        return
    async with stream, aclosing(frames(stream, clock)) as outputs:
        async for text, output in outputs:
            yield _view(_answered(asked, text, output), output, stream.model, seed=question.params.seed)


async def _load(service: ChatService, question: Question) -> AsyncGenerator[str, None]:
    """The steps of the load in words, none if the weights are there."""
    if service.model(question.model).state is LoadState.READY:
        return
    async for progress in service.load(question.model):
        yield load_line(progress)


async def _start(service: ChatService, request: ChatRequest) -> RequestStream:
    """In a chat max_tokens is a limit, not a reservation: near the end of the context it gives way to what is left."""
    try:
        return await service.start_chat(request)
    except ContextLengthExceededError:
        if request.params.max_tokens is None:
            raise
    return await service.start_chat(replace(request, params=replace(request.params, max_tokens=None)))


def _answered(asked: Chat, text: str, output: RequestOutput) -> Chat:
    """The chat with the answer so far; an answer may be empty once it is finished."""
    is_answer = text or output.finish_reason not in (None, FinishReason.ERROR)
    return [*asked, assistant_turn(text)] if is_answer else asked


def _view(chat: Chat, output: RequestOutput, model: ModelInfo, *, seed: int | None) -> View:
    used = output.usage.total_tokens
    if output.finish_reason is None:
        return View([*chat, pending_note(progress_line(output))], Phase.RUNNING, used)
    if output.finish_reason is FinishReason.ERROR:
        sentence = output.error or "The engine could not finish this answer. Try again."
        return View([*chat, open_note("The answer ended early", sentence)], Phase.DONE, used, sentence)
    return View([*chat, Note(answer_line(output), answer_details(output, model, seed))], Phase.DONE, used)
