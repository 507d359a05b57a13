"""A real chromium, driven by playwright, and visits to a page in it."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@dataclass
class Visit:
    """An open page and what it did behind the reader's back."""

    page: Page
    strangers: list[str] = field(default_factory=list)
    """Requests to any other host."""
    complaints: list[str] = field(default_factory=list)
    """Errors in the console."""


@contextmanager
def chromium() -> Iterator[Browser]:
    """The browser. One at a time: playwright's event loop stays in the thread that started it."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        yield browser
        browser.close()


def visits(browser: Browser, url: str) -> Iterator[Callable[..., Visit]]:
    """A factory of visits to `url`; the profiles are closed at the end."""
    contexts = []

    def open_page(*, width: int = 1280, height: int = 800, path: str = "/") -> Visit:
        context = browser.new_context(viewport={"width": width, "height": height})
        context.set_default_timeout(15_000)
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        contexts.append(context)
        opened = Visit(context.new_page())
        page = opened.page
        page.on("request", lambda request: _note_stranger(opened, request.url, url))
        page.on("console", lambda message: opened.complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: opened.complaints.append(str(error)))
        page.goto(url + path)
        page.locator("#box textarea").wait_for()
        page.locator(".badge.state.ready").wait_for()
        return opened

    yield open_page
    for context in contexts:
        context.close()


def _note_stranger(opened: Visit, address: str, home: str) -> None:
    if not re.match(rf"{re.escape(home)}|data:|blob:", address):
        opened.strangers.append(address)
