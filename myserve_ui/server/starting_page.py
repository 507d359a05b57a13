"""What a browser shows while the app starts: how far it is, asked for anew every second."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.responses import HTMLResponse
from starlette.types import Scope

from myserve_ui.api.middleware import own_path
from myserve_ui.ui.shared.templates import render


def is_page_visit(scope: Scope) -> bool:
    """True for a person's browser that opens the page; scripts do not ask for HTML."""
    return scope["method"] == "GET" and own_path(scope) == "/" and "text/html" in Headers(scope=scope).get("accept", "")


def starting_page(words: str) -> HTMLResponse:
    """A page with `words` that asks for itself again: 503, as there is nothing to be kept of it."""
    headers = {"retry-after": "1", "cache-control": "no-store"}
    return HTMLResponse(render("page/starting", words=words), status_code=503, headers=headers)
