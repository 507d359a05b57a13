"""Which paths are the browser's; all else is the API's, to answer or to refuse."""

from __future__ import annotations

FIRST_PARTS = frozenset(
    {
        "assets",
        "config",
        "favicon.ico",
        "gradio_api",
        "login",
        "logout",
        "manifest.json",
        "monitoring",
        "pwa_icon",
        "robots.txt",
        "static",
        "svelte",
        "theme.css",
    }
)
"""What Gradio calls its internal routes, written down here: the API is served before Gradio has been imported."""

UNUSED_PATHS = (
    "/gradio_api/proxy=",
    "/gradio_api/file=http",
    "/gradio_api/file/http",
    "/gradio_api/runs",
    "/gradio_api/stream/",
    "/gradio_api/custom_component/",
    "/gradio_api/vibe-",
    "/gradio_api/undo-vibe-",
    "/gradio_api/dev/",
    "/gradio_api/deep_link",
    "/monitoring",
)
"""Gradio's routes that the page does not use: they fetch from other sites, run code, or pass the queue by."""


def is_browser_path(path: str) -> bool:
    """True for what the browser app serves."""
    if path.lower().startswith(UNUSED_PATHS):
        return False
    return path == "/" or path.removeprefix("/").partition("/")[0] in FIRST_PARTS
