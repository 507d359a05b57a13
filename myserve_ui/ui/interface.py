"""The page: lays out its parts, connects them to one ChatService, and mounts the whole on the app."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import gradio as gr

from myserve_ui.bench.benchmark_service import BenchmarkService
from myserve_ui.evaluation.comparisons import Comparisons
from myserve_ui.paths import asset
from myserve_ui.serving.chat_service import ChatService
from myserve_ui.settings import Settings
from myserve_ui.ui.benchmark.endpoints import BenchEndpoints
from myserve_ui.ui.benchmark.tab import draw_benchmark_tab
from myserve_ui.ui.chat.endpoints import Endpoints
from myserve_ui.ui.chat.files_panel import FilesPanel
from myserve_ui.ui.chat.model_panel import ModelPanel
from myserve_ui.ui.chat.opening import Opening
from myserve_ui.ui.chat.tab import ChatParts, ChatTab
from myserve_ui.ui.chat.view import header_badges
from myserve_ui.ui.compare.endpoints import CompareEndpoints
from myserve_ui.ui.compare.tab import CompareTab
from myserve_ui.ui.shared.assets import logo, page_head
from myserve_ui.ui.shared.controls import Controls, draw_controls
from myserve_ui.ui.shared.events import QUIET
from myserve_ui.ui.shared.templates import render
from myserve_ui.ui.shared.theme import make_theme
from myserve_ui.ui.shared.words import NOT_READY, model_choices
from myserve_ui.ui.status.tab import draw_status_tab

App = TypeVar("App")
"""The parent application; only gradio looks inside."""

TITLE = "myserve-ui"
STYLES = ("style.css", "compare.css", "bench.css")
STORE_KEY = "myserve-chat"
STORE_SECRET = "myserve-chat"
"""Gradio sends it to every page, so it hides nothing; it is fixed so that a chat outlives a restart."""
SESSIONS_KEPT = 200
"""Each open page costs the server a copy of its components; more than these are dropped, oldest first."""
EVENTS_WAITING = 256
LONGEST_ANSWER = 4096
LATEX = [
    {"left": "$$", "right": "$$", "display": True},
    {"left": "\\[", "right": "\\]", "display": True},
    {"left": "\\(", "right": "\\)", "display": False},
]
EXAMPLES = (
    "Explain how a bicycle stays upright, in three short sentences.",
    "Write a short poem about rain on a tin roof.",
    "Write a Python function that checks whether a word is a palindrome.",
    "What is the capital of France?",
)


def mount_ui(
    app: App, service: ChatService, settings: Settings, *, comparisons: Comparisons, benchmarks: BenchmarkService
) -> App:
    """Mount the page at "/", which takes every path that `app` does not serve yet: call it last."""
    blocks = build_blocks(service, settings, comparisons=comparisons, benchmarks=benchmarks)
    gr.mount_gradio_app(
        app,
        blocks,
        path="/",
        root_path=settings.root_path or None,
        auth=_login(settings),
        auth_message="Any name will do; the password is an API key of this server.",
        footer_links=["api", "settings"],
        run_history=False,
        allowed_paths=[],
        favicon_path=str(asset("logo.svg")),
        show_error=False,
        max_file_size=int(settings.max_body_mib * 2**20),
        ssr_mode=False,
        enable_monitoring=False,
        theme=make_theme(),
        css_paths=[asset(name) for name in STYLES],
        head=page_head(),
    )
    return app


def build_blocks(
    service: ChatService, settings: Settings, *, comparisons: Comparisons, benchmarks: BenchmarkService
) -> gr.Blocks:
    """The page and its named endpoints, queue settings included, ready to be mounted."""
    with gr.Blocks(title=TITLE, analytics_enabled=False, fill_width=True, delete_cache=(3600, 3600)) as blocks:
        _draw_page(blocks, _Services(service, comparisons, benchmarks), settings)
        Endpoints(service).register()
        CompareEndpoints(comparisons).register()
        BenchEndpoints(benchmarks).register()
    blocks.queue(default_concurrency_limit=None, max_size=EVENTS_WAITING, api_open=False)
    blocks.state_session_capacity = SESSIONS_KEPT
    _poll_less(blocks)
    return blocks


@dataclass(frozen=True, slots=True)
class _Services:
    """What the tabs are drawn over."""

    chat: ChatService
    comparisons: Comparisons
    benchmarks: BenchmarkService


def _draw_page(page: gr.Blocks, services: _Services, settings: Settings) -> None:
    service = services.chat
    model = service.model("")
    store = gr.BrowserState({}, storage_key=STORE_KEY, secret=STORE_SECRET)
    with gr.Sidebar(open=False, width=320, elem_id="sidebar"):
        gr.HTML(render("shared/heading", level=2, words="Settings"), padding=False)
        limit = min(settings.max_model_len or LONGEST_ANSWER, LONGEST_ANSWER)  # the model may still be loading
        controls = draw_controls(model_choices(service.models(), telling=NOT_READY), model.id, max_tokens=limit)
        gr.HTML(render("shared/heading", level=3, words="Save or open this chat"), padding=False)
        files = gr.Column()
    with gr.Column(elem_id="page"):
        with gr.Row(elem_id="header"):
            gr.HTML(render("page/brand", logo=logo(), title=TITLE), elem_id="brand", padding=False)
            header = gr.HTML(header_badges(model), elem_id="model-line", padding=False)
            new_chat = gr.Button("New chat", size="sm", elem_id="new-chat", scale=0, min_width=92)
        with gr.Tabs(elem_id="tabs"):
            with gr.Tab("Chat", elem_id="chat-tab") as chat_page:
                parts = _draw_chat(controls, store)
                with gr.Accordion("Use it from code", open=False, elem_id="code"):
                    scripts = gr.Markdown(elem_id="scripts")
            with gr.Tab("Compare", elem_id="compare-tab") as compare_page:
                CompareTab(services.comparisons, services.benchmarks.speeds).draw()
            with gr.Tab("Benchmark", elem_id="benchmark-tab") as benchmark_page:
                draw_benchmark_tab(services.benchmarks)
            with gr.Tab("Status", elem_id="status-tab") as status_page:
                draw_status_tab(status_page, service, [chat_page, compare_page, benchmark_page])
    with files:
        FilesPanel(parts).draw()
    tab = ChatTab(service, parts)
    tab.wire()
    tab.wire_change(new_chat.click, tab.on_clear)
    panel = ModelPanel(service, header, controls.model)
    panel.wire()
    opening = Opening(service, parts, panel, scripts, needs_key=bool(settings.api_key))
    page.load(opening.restore, parts.store, opening.outputs, queue=False, **QUIET)


def _draw_chat(controls: Controls, store: gr.BrowserState) -> ChatParts:
    chat = gr.Chatbot(
        elem_id="chat",
        label="Chat",
        show_label=False,
        container=False,
        height="100%",
        layout="bubble",
        buttons=["copy"],
        editable="user",
        latex_delimiters=LATEX,
        examples=[{"text": text, "display_text": text} for text in EXAMPLES],
        placeholder=render("chat/welcome"),
    )
    box = gr.Textbox(
        elem_id="box",
        label="Message",
        show_label=False,
        container=False,
        placeholder="Write a message. Enter sends, Shift+Enter starts a new line, Esc stops.",
        lines=1,
        max_lines=8,
        submit_btn=True,
        autofocus=True,
    )
    meter = gr.HTML("", elem_id="meter", padding=False)
    return ChatParts(chat, box, meter, store, controls)


def _login(settings: Settings) -> Callable[[str, str], bool] | None:
    """Gradio's own login with the API keys as passwords; none without keys."""
    keys = [key.get_secret_value().encode() for key in settings.api_key]
    if not keys:
        return None

    def is_key(_name: str, password: str) -> bool:
        matches = [secrets.compare_digest(password.encode(), key) for key in keys]  # all of them, whichever fits
        return any(matches)

    return is_key


def _poll_less(blocks: gr.Blocks) -> None:
    """Gradio's idle queue wakes up 1000 times a second, 7 % of a core; 50 times are enough to feel instant."""
    queue = blocks._queue
    if hasattr(queue, "sleep_when_free"):
        queue.sleep_when_free = 0.02
    if hasattr(queue, "progress_update_sleep_when_free"):
        queue.progress_update_sleep_when_free = 0.1
