"""The Status page: how the engines stand, drawn anew every few seconds while somebody looks."""

from __future__ import annotations

import gradio as gr

from myserve_ui.serving.chat_service import ChatService
from myserve_ui.ui.shared.events import QUIET
from myserve_ui.ui.status.cards import status_html

SECONDS = 3.0


def draw_status_tab(tab: gr.Tab, service: ChatService, other_tabs: list[gr.Tab]) -> None:
    """Fill `tab`. Its timer runs only while it is the one in sight; each tick costs the server some milliseconds."""
    cards = gr.HTML(elem_id="status", padding=False)
    timer = gr.Timer(SECONDS, active=False)
    quiet = QUIET | {"queue": False}

    def show() -> str:
        return status_html(service.status())

    timer.tick(show, None, cards, **quiet)
    tab.select(show, None, cards, **quiet).then(lambda: gr.Timer(active=True), None, timer, queue=False, **QUIET)
    for other in other_tabs:
        other.select(lambda: gr.Timer(active=False), None, timer, **quiet)
