"""Saving the chat to files and reading one back. The page writes the files: nothing is left on the server's disk."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gradio as gr

from myserve_ui.errors import InvalidRequestError
from myserve_ui.ui.chat.history import messages_of, read_chat
from myserve_ui.ui.chat.saved_chat import from_json, to_json, to_markdown, to_store
from myserve_ui.ui.chat.tab import AFTER_STOP, ChatParts, Updates, unchanged
from myserve_ui.ui.shared.events import DOWNLOAD, QUIET, warn


class FilesPanel:
    """Buttons for JSON and Markdown downloads and for opening a saved chat."""

    def __init__(self, parts: ChatParts) -> None:
        self._parts = parts

    def draw(self) -> None:
        """Draw the buttons into the open layout and wire them."""
        parts = self._parts
        with gr.Row(elem_id="files"):
            markdown = gr.Button("Markdown", size="sm", min_width=60)
            document = gr.Button("JSON", size="sm", min_width=60)
            upload = gr.UploadButton("Open…", file_types=[".json"], type="binary", size="sm", min_width=60)
        outgoing = gr.JSON(visible=False)
        for button, handler in ((markdown, self.save_markdown), (document, self.save_json)):
            button.click(handler, parts.inputs, outgoing, queue=False, **QUIET).then(
                None, outgoing, None, js=DOWNLOAD, **QUIET
            )
        inputs, outputs = parts.inputs | {upload}, self._opened_outputs()
        upload.upload(self.open, inputs, outputs, js=AFTER_STOP, **QUIET)  # only a queued event can show a warning
        self._upload = upload

    def save_markdown(self, inputs: Mapping[Any, Any]) -> dict[str, str]:
        text = to_markdown(read_chat(inputs[self._parts.chat]), self._parts.controls.values(inputs))
        return {"name": "chat.md", "type": "text/markdown", "text": text}

    def save_json(self, inputs: Mapping[Any, Any]) -> dict[str, str]:
        text = to_json(read_chat(inputs[self._parts.chat]), self._parts.controls.values(inputs))
        return {"name": "chat.json", "type": "application/json", "text": text}

    def open(self, inputs: Mapping[Any, Any]) -> Updates:
        """Replace the chat and the settings by a file's; a file that is none leaves everything as it is."""
        parts = self._parts
        try:
            chat, controls = from_json(inputs[self._upload])
        except InvalidRequestError as error:
            warn(error.message)
            return unchanged()
        controls.pop("model", None)
        named, restored = parts.controls.named(), parts.controls.restore(controls)
        taken = {name: value for name, value in controls.items() if named.get(name) in restored}
        if ignored := [name for name, value in controls.items() if value is not None and name not in taken]:
            warn(f"These settings of the file cannot be used here: {', '.join(ignored):.200}.")
        stored = to_store(chat, used_tokens=0, controls=parts.controls.values(inputs) | taken)
        return {parts.chat: messages_of(chat), parts.meter: "", parts.store: stored, **restored}

    def _opened_outputs(self) -> list[Any]:
        parts = self._parts
        return [parts.chat, parts.meter, parts.store, *parts.controls.named().values()]
