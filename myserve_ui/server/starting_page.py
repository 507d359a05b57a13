"""What a browser shows while the app starts: how far it is, asked for anew every second."""

from __future__ import annotations

from html import escape

from starlette.datastructures import Headers
from starlette.responses import HTMLResponse
from starlette.types import Scope

from myserve_ui.api.middleware import own_path

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="refresh" content="1">
<title>myserve-ui</title>
<style>
:root {{ color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif }}
body {{ display: grid; place-content: center; min-height: 90vh; margin: 1rem; text-align: center }}
h1 {{ font-size: 1.25rem; font-weight: 600; margin: 0 }}
p {{ margin: .5rem 0; opacity: .75 }}
</style>
</head>
<body>
<h1>myserve-ui is starting</h1>
<p>{words}</p>
</body>
</html>
"""


def is_page_visit(scope: Scope) -> bool:
    """True for a person's browser that opens the page; scripts do not ask for HTML."""
    return scope["method"] == "GET" and own_path(scope) == "/" and "text/html" in Headers(scope=scope).get("accept", "")


def starting_page(words: str) -> HTMLResponse:
    """A page with `words` that asks for itself again: 503, as there is nothing to be kept of it."""
    headers = {"retry-after": "1", "cache-control": "no-store"}
    return HTMLResponse(PAGE.format(words=escape(words)), status_code=503, headers=headers)
