"""The header's badges and the model choice: shows what is loaded, and loads what is chosen."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import gradio as gr

from myserve_ui.core.model_info import LoadState
from myserve_ui.errors import MyServeError
from myserve_ui.serving.chat_service import ChatService
from myserve_ui.ui.chat.view import header_badges
from myserve_ui.ui.shared.events import QUIET, warn
from myserve_ui.ui.shared.words import NOT_READY, model_choices

Updates = dict[Any, Any]
SETTLED = (LoadState.READY, LoadState.UNAVAILABLE)


class ModelPanel:
    """Keeps the badges and the dropdown true. Holds nothing of any visitor."""

    def __init__(self, service: ChatService, header: gr.HTML, choice: gr.Dropdown) -> None:
        self._service = service
        self._header = header
        self._choice = choice
        self._awaited = gr.Textbox("", label="Model to wait for", visible="hidden", elem_id="awaited")

    @property
    def outputs(self) -> list[Any]:
        return [self._header, self._choice, self._awaited]

    def wire(self) -> None:
        """Load in sight what is chosen, and what the page waits for when it opens."""
        quiet = QUIET | {"concurrency_limit": None}
        shown = [self._header, self._choice]
        self._choice.input(self.show, self._choice, shown, **quiet)
        self._awaited.change(self.show, self._awaited, shown, **quiet)

    def at_once(self, model: str) -> Updates:
        """The panel as it is now. Weights that are not there yet are awaited by an event of their own.

        An open page with everything loaded starts no queued event: Gradio's client can miss the answer of a message
        that is sent in the moment another queued event ends.
        """
        model = self._known(model)
        is_settled = self._service.model(model).state in SETTLED
        return self._view(model) | ({} if is_settled else {self._awaited: model})

    async def show(self, model: str) -> AsyncGenerator[Updates, None]:
        """Load `model` if it is not loaded, and show how far it is; end with its badges, or the reason it failed."""
        model = self._known(model)
        if self._service.model(model).state not in SETTLED:
            try:
                async for progress in self._service.load(model):
                    yield {self._header: header_badges(self._service.model(model), progress)}
            except MyServeError as error:
                warn(error.message)
        yield self._view(model)

    def _known(self, model: str) -> str:
        """`model`, or the default if the catalog has it no longer (a choice kept by the browser)."""
        try:
            return self._service.model(model or "").id
        except MyServeError:
            return self._service.model("").id

    def _view(self, model: str) -> Updates:
        choices = model_choices(self._service.models(), telling=NOT_READY)
        return {
            self._header: header_badges(self._service.model(model)),
            self._choice: gr.update(choices=choices, value=model),
        }
