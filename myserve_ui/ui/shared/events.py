"""What handlers of every tab share: options of an event, what they give the page, and words for what went wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gradio as gr
from markupsafe import Markup, escape

from myserve_ui.ui.shared.templates import render

Updates = dict[Any, Any]
QUIET = {"show_progress": "hidden", "api_visibility": "private"}
"""Events of the page itself: no spinner over what streams, no entry in the list of endpoints."""
DOWNLOAD = "(file) => file && window.myserve.download(file)"
LAST_WORDS = "() => new Promise((done) => setTimeout(done, 200))"
"""When an event is cancelled its last words are on their way to the page; they would overwrite what comes sooner."""
UNEXPECTED = "Something went wrong in the server; its log says what. Try again."


def wire_stop(stop: gr.Button, run: Any, handler: Callable[..., Updates], *, inputs: Any, outputs: list[Any]) -> None:
    """Cancel the event `run` at a click on `stop`, then show what `handler` makes of what it left."""
    stop.click(None, None, None, cancels=[run], queue=False, **QUIET).then(
        None, None, None, js=LAST_WORDS, **QUIET
    ).then(handler, inputs, outputs, queue=False, **QUIET)


def warn(sentence: str) -> None:
    """Show `sentence` in a corner of the page; Gradio takes it for HTML. Only a queued event can."""
    gr.Warning(str(escape(sentence)))


def problem(sentence: str) -> Markup:
    """A sentence about what went wrong, where the result would be."""
    return render("shared/problem", sentence=sentence)


def progress_bar(done: int, total: int, words: str) -> Markup:
    """How far something long is."""
    return render("shared/progress", done=done, total=total, words=words)


def paragraph(kind: str, words: str) -> Markup:
    """A sentence as the style sheet draws its `kind`: lead, fine, working (it goes on), empty (nothing there yet)."""
    return render("shared/paragraph", kind=kind, words=words)
