"""The page as the whole app serves it, over the real engine: every request of the page gets through both doors."""

import threading
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from playwright.sync_api import Browser, expect

from myserve_ui.server.composition import create_app
from myserve_ui.settings import Settings
from myserve_ui.ui import interface
from tests.ui.live_server import serving

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def echo_app_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    cache: Path = tmp_path_factory.mktemp("cache")
    with serving(lambda: create_app(Settings(force_echo=True, cache=cache))) as url:
        yield url


def test_a_visit_during_the_start_becomes_the_page_by_itself(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_stand = threading.Event()
    mount_ui = interface.mount_ui
    monkeypatch.setattr(interface, "mount_ui", lambda *parts, **more: may_stand.wait(60) and mount_ui(*parts, **more))
    with serving(lambda: create_app(Settings(force_echo=True, cache=tmp_path))) as url:
        page = browser.new_page()
        answer = page.goto(url)
        assert answer is not None
        assert answer.status == 503
        assert "myserve-ui is starting" in answer.text()
        may_stand.set()
        page.locator(".badge.state.ready").wait_for()
        page.close()


def test_the_page_becomes_ready_and_chats_without_a_refused_request(browser: Browser, echo_app_url: str) -> None:
    httpx2.get(echo_app_url, timeout=60.0)  # returns when the page stands
    page = browser.new_page()
    refused: list[str] = []
    page.on("response", lambda answer: refused.append(answer.url) if answer.status >= 400 else None)
    page.goto(echo_app_url)
    page.locator(".badge.state.ready").wait_for()
    page.fill("#box textarea", "Hello there")
    page.press("#box textarea", "Enter")
    expect(page.locator("#chat .thought-group")).to_contain_text("prompt tokens cached")
    assert page.locator("#chat [data-testid=bot]").first.inner_text().strip()
    page.get_by_role("button", name="Use it from code").click()
    expect(page.locator("#scripts")).to_contain_text(echo_app_url)
    page.close()
    assert refused == []
