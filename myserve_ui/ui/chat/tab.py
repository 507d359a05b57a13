"""The Chat page: draws it, and turns its events into turns of a chat. All state is in the visitor's own browser."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import gradio as gr

from myserve_ui.errors import InvalidRequestError, MyServeError
from myserve_ui.serving.chat_service import ChatService
from myserve_ui.ui.chat.history import (
    Chat,
    last_question,
    messages_of,
    open_note,
    read_chat,
    settle,
    spoken,
    text_in,
    user_turn,
    without_status,
)
from myserve_ui.ui.chat.saved_chat import Stored, to_store
from myserve_ui.ui.chat.turn import Phase, Question, View, play_turn
from myserve_ui.ui.chat.view import context_meter
from myserve_ui.ui.shared.controls import Controls, read_params
from myserve_ui.ui.shared.events import LAST_WORDS, QUIET, warn
from myserve_ui.ui.shared.verbatim import well_formed

logger = logging.getLogger(__name__)

Updates = dict[Any, Any]
"""Component -> new value, as Gradio takes it from a handler; components that are not named stay as they are."""

SAVE_SECONDS = 1.0
"""A reload loses at most so much of a running answer."""
ASKED = "(...values) => window.myserve.asked(values)"
OVER = "() => window.myserve.over()"
AFTER_STOP = "(...values) => window.myserve.afterStop(values)"
"""For an event that changes the chat: it ends a running answer first."""
UNEXPECTED = "Something went wrong in the server; its log says what. Your text is not lost: try again."


ACCEPTED = (Phase.LOADING, Phase.RUNNING, Phase.DONE)
"""The text has left the box."""


@dataclass(frozen=True, slots=True)
class ChatParts:
    """The components of the page that a turn reads or changes."""

    chat: gr.Chatbot
    box: gr.Textbox
    meter: gr.HTML
    store: gr.BrowserState
    controls: Controls

    @property
    def inputs(self) -> set[Any]:
        return {self.chat, self.box, self.store, *self.controls.named().values()}

    @property
    def outputs(self) -> list[Any]:
        return [self.chat, self.box, self.meter, self.store]


@dataclass(frozen=True, slots=True)
class Asking:
    """One question on its way: the page's values and what the chat is, and stays if the question is refused."""

    inputs: Mapping[Any, Any]
    text: str
    before: Chat
    earlier: Chat
    from_box: bool = False


@dataclass(slots=True)
class Progress:
    """What one turn has done to the page so far."""

    saved_at: float = float("-inf")
    is_accepted: bool = False


class ChatTab:
    """The handlers of the Chat page. Holds the service and the components, nothing of any visitor."""

    def __init__(self, service: ChatService, parts: ChatParts, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._service = service
        self._parts = parts
        self._clock = clock

    def wire(self) -> None:
        """Connect the events. A turn has no limit of its own: the engine decides how many run at once.

        Gradio calls it a failure when a turn is cancelled, and says so once the server has ended it: then is the time
        to settle what the page shows.
        """
        parts = self._parts
        turns = [
            event(handler, parts.inputs, parts.outputs, js=ASKED, concurrency_limit=None, **QUIET)
            for event, handler in (
                (parts.box.submit, self.on_submit),
                (parts.chat.example_select, self.on_example),
                (parts.chat.retry, self.on_retry),
                (parts.chat.edit, self.on_edit),
            )
        ]
        parts.box.stop(None, None, None, cancels=turns, queue=False, **QUIET)
        for turn in turns:
            turn.failure(None, None, None, js=LAST_WORDS, **QUIET).then(
                self.on_stop, parts.inputs, parts.outputs, queue=False, **QUIET
            )
            turn.then(None, None, None, js=OVER, **QUIET)
        self.wire_change(parts.chat.undo, self.on_undo)
        self.wire_change(parts.chat.clear, self.on_clear)

    def wire_change(self, event: Callable[..., Any], handler: Callable[..., Any]) -> None:
        """Connect an event that changes the chat without asking the model."""
        parts = self._parts
        event(handler, parts.inputs, parts.outputs, js=AFTER_STOP, queue=False, **QUIET)

    async def on_submit(self, inputs: Mapping[Any, Any]) -> AsyncGenerator[Updates, None]:
        earlier = without_status(self._chat(inputs))
        text = well_formed(inputs[self._parts.box] or "")
        asking = Asking(inputs, text, before=earlier, earlier=earlier, from_box=True)
        async with aclosing(self._play(asking)) as updates:
            async for update in updates:
                yield update

    async def on_example(self, inputs: Mapping[Any, Any], event: gr.SelectData) -> AsyncGenerator[Updates, None]:
        async with aclosing(self._play(Asking(inputs, event.value["text"], before=[], earlier=[]))) as updates:
            async for update in updates:
                yield update

    async def on_retry(self, inputs: Mapping[Any, Any]) -> AsyncGenerator[Updates, None]:
        chat = self._chat(inputs)
        if (found := last_question(chat)) is None:
            return
        index, question = found
        asking = Asking(inputs, question.text, before=without_status(chat), earlier=chat[:index])
        async with aclosing(self._play(asking)) as updates:
            async for update in updates:
                yield update

    async def on_edit(self, inputs: Mapping[Any, Any], event: gr.EditData) -> AsyncGenerator[Updates, None]:
        """A user turn that was changed is asked again; what followed it is gone."""
        chat = self._chat(inputs)
        index = event.index if isinstance(event.index, int) else event.index[0]
        text, earlier = well_formed(text_in(event.value)), without_status(chat[:index])
        before = [*earlier, user_turn(text)] if text.strip() else chat
        async with aclosing(self._play(Asking(inputs, text, before=before, earlier=earlier))) as updates:
            async for update in updates:
                yield update

    def on_stop(self, inputs: Mapping[Any, Any]) -> Updates:
        """Keep what was written; a question that got no word yet goes back into the box, unless a draft is in it."""
        parts, chat = self._parts, settle(self._chat(inputs), "stopped")
        box: dict[str, object] = {"submit_btn": True, "stop_btn": False}
        if (found := last_question(chat)) is not None and not spoken(chat[found[0] :]):
            index, question = found
            box |= {"value": inputs[parts.box] or question.text}
            chat = chat[:index]
        return {parts.chat: messages_of(chat), parts.box: gr.update(**box), parts.store: self._saved(inputs, chat)}

    def on_undo(self, inputs: Mapping[Any, Any]) -> Updates:
        """Take the last turn back and give its text back to the writer."""
        chat = self._chat(inputs)
        if (found := last_question(chat)) is None:
            return unchanged()
        index, question = found
        return self._emptied(inputs, chat[:index]) | {self._parts.box: question.text}

    def on_clear(self, inputs: Mapping[Any, Any]) -> Updates:
        return self._emptied(inputs, [])

    def _chat(self, inputs: Mapping[Any, Any]) -> Chat:
        return read_chat(inputs[self._parts.chat])

    async def _play(self, asking: Asking) -> AsyncGenerator[Updates, None]:
        """Updates of one turn. Whatever goes wrong ends in a sentence, and what was typed stays in the box."""
        progress = Progress()
        try:
            async with aclosing(play_turn(self._service, self._question(asking), clock=self._clock)) as views:
                async for view in views:
                    yield self._updates(asking, view, progress)
        except MyServeError as error:
            yield self._updates(asking, _refused(asking, error.message), progress)
        except Exception:
            logger.exception("a chat turn failed")
            yield self._updates(asking, _refused(asking, UNEXPECTED), progress)

    def _question(self, asking: Asking) -> Question:
        """Raises InvalidRequestError if there is nothing to answer, or a setting is out of range."""
        values = self._parts.controls.values(asking.inputs)
        if not asking.text.strip():
            raise InvalidRequestError("The message is empty. Type something to send.")
        return Question(
            before=asking.before,
            earlier=asking.earlier,
            text=asking.text,
            system_prompt=str(values["system_prompt"] or ""),
            model=str(values["model"] or ""),
            params=read_params(values),
        )

    def _updates(self, asking: Asking, view: View, progress: Progress) -> Updates:
        parts = self._parts
        if view.error:
            warn(view.error)
        updates: Updates = {parts.chat: messages_of(view.chat), parts.box: self._box(asking, view.phase, progress)}
        if view.used_tokens:
            limit = self._service.model(asking.inputs[parts.controls.model] or "").context_length
            updates[parts.meter] = context_meter(view.used_tokens, limit)
        if self._is_due(view.phase, progress):
            progress.saved_at = self._clock()
            updates[parts.store] = self._saved(asking.inputs, view.chat, view.used_tokens)
        return updates

    def _is_due(self, phase: Phase, progress: Progress) -> bool:
        """Whether to save; nothing of a turn that is refused at once, the end of every other."""
        if phase in ACCEPTED:
            return phase is Phase.DONE or self._clock() - progress.saved_at >= SAVE_SECONDS
        return phase is Phase.REFUSED and math.isfinite(progress.saved_at)

    def _box(self, asking: Asking, phase: Phase, progress: Progress) -> Updates:
        """Send or stop beside the box; emptied once, when its text is accepted: the next draft may be in it already."""
        is_over = phase in (Phase.DONE, Phase.REFUSED)
        changes: dict[str, object] = {"submit_btn": is_over, "stop_btn": not is_over}
        if asking.from_box and phase in ACCEPTED and not progress.is_accepted:
            progress.is_accepted = True
            changes["value"] = ""
        return gr.update(**changes)

    def _emptied(self, inputs: Mapping[Any, Any], chat: Chat) -> Updates:
        parts = self._parts
        return {parts.chat: messages_of(chat), parts.meter: "", parts.store: self._saved(inputs, chat, 0)}

    def _saved(self, inputs: Mapping[Any, Any], chat: Chat, used_tokens: int | None = None) -> Stored:
        if used_tokens is None:
            used_tokens = int((inputs[self._parts.store] or {}).get("used_tokens") or 0)
        return to_store(chat, used_tokens=used_tokens, controls=self._parts.controls.values(inputs))


def unchanged() -> Updates:
    """For a handler that has nothing to change: Gradio takes an empty dictionary for a value."""
    return gr.skip()


def _refused(asking: Asking, sentence: str) -> View:
    return View([*asking.before, open_note("Not sent", sentence)], Phase.REFUSED, error=sentence)
