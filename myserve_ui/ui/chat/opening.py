"""What happens when the page opens: the kept chat and settings come back, and the scripts get this server's address."""

from __future__ import annotations

from typing import Any

import gradio as gr

from myserve_ui.serving.chat_service import ChatService
from myserve_ui.ui.chat.history import messages_of
from myserve_ui.ui.chat.model_panel import ModelPanel
from myserve_ui.ui.chat.saved_chat import from_store
from myserve_ui.ui.chat.tab import ChatParts
from myserve_ui.ui.chat.view import context_meter
from myserve_ui.ui.shared.assets import examples_markdown


class Opening:
    """The page's load event. Holds nothing of any visitor."""

    def __init__(
        self, service: ChatService, parts: ChatParts, panel: ModelPanel, scripts: gr.Markdown, *, needs_key: bool
    ) -> None:
        self._service = service
        self._parts = parts
        self._panel = panel
        self._scripts = scripts
        self._needs_key = needs_key

    @property
    def outputs(self) -> list[Any]:
        parts = self._parts
        components = [parts.chat, parts.meter, self._scripts, *self._panel.outputs, *parts.controls.named().values()]
        return list(dict.fromkeys(components))

    def restore(self, stored: Any, request: gr.Request) -> dict[Any, Any]:
        """Updates of the page. An empty store touches no chat: the visitor may have sent a message already."""
        chat, used, saved = from_store(stored)
        default = self._service.model("")
        limit = default.context_length
        kept = {self._parts.chat: messages_of(chat), self._parts.meter: context_meter(used, limit)} if chat else {}
        scripts = examples_markdown(url=str(request.request.base_url), model=default.id, needs_key=self._needs_key)
        return {
            self._scripts: scripts,
            **kept,
            **self._parts.controls.restore(saved),
            **self._panel.at_once(str(saved.get("model") or "")),
        }
