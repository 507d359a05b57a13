"""The header's badges and the model choice: shows what is loaded, and loads what is chosen."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from html import escape
from typing import Any

import gradio as gr

from myserve_ui.core.model_info import LoadState
from myserve_ui.errors import MyServeError
from myserve_ui.serving.chat_service import ChatService
from myserve_ui.ui.formatting import header_badges, model_choices

Updates = dict[Any, Any]


class ModelPanel:
    """Keeps the badges and the dropdown true. Holds nothing of any visitor."""

    def __init__(self, service: ChatService, header: gr.HTML, choice: gr.Dropdown) -> None:
        self._service = service
        self._header = header
        self._choice = choice

    async def show(self, model: str) -> AsyncGenerator[Updates, None]:
        """Load `model` if it is not loaded, and show how far it is; end with its badges, or the reason it failed."""
        model = self._known(model)
        if self._service.model(model).state in (LoadState.READY, LoadState.UNAVAILABLE):
            yield self._view(model)
            return
        try:
            async for progress in self._service.load(model):
                yield {self._header: header_badges(self._service.model(model), progress)}
        except MyServeError as error:
            gr.Warning(escape(error.message))
        yield self._view(model)

    def _known(self, model: str) -> str:
        """`model`, or the default if the catalog has it no longer (a choice kept by the browser)."""
        try:
            return self._service.model(model or "").id
        except MyServeError:
            return self._service.model("").id

    def _view(self, model: str) -> Updates:
        choices = model_choices(self._service.models())
        return {
            self._header: header_badges(self._service.model(model)),
            self._choice: gr.update(choices=choices, value=model),
        }
