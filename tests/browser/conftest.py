"""A real chromium, driven by playwright; tests are left out, with the reason, where there is none."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.ui.live_server import page_app, serving
from tests.ui.scripted_service import ScriptedService

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


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if not CHROMIUM.exists():
        pytest.skip(f"browser tests need {CHROMIUM} (Debian's package chromium)")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def shared_service() -> ScriptedService:
    return ScriptedService()


@pytest.fixture(scope="module")
def url(shared_service: ScriptedService) -> Iterator[str]:
    with serving(lambda: page_app(shared_service)) as address:
        yield address


@pytest.fixture
def service(shared_service: ScriptedService) -> ScriptedService:
    """The script behind the page, as new; the server lives for the whole module."""
    shared_service.__init__()  # type: ignore[misc]
    return shared_service


@pytest.fixture
def visit(browser: Browser, url: str, service: ScriptedService) -> Iterator[Callable[..., Visit]]:
    """Opens the page in a browser profile of its own: visit(width=390, height=844, path="/")."""
    yield from visits(browser, url)


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
