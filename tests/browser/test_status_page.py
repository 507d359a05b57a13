"""The Status page: it is drawn when somebody looks, and follows what the engines do."""

from collections.abc import Callable, Iterator

import pytest
from fastapi import FastAPI
from playwright.sync_api import Browser, expect

from myserve_ui.serving.chat_service import ChatService
from myserve_ui.serving.engine_builder import EngineLimits
from myserve_ui.serving.engine_pool import EnginePool
from tests.browser.visits import Visit, visits
from tests.conftest import catalog_of, load_tiny
from tests.ui.live_server import page_app, serving

pytestmark = pytest.mark.browser


@pytest.fixture
def visit(browser: Browser) -> Iterator[Callable[..., Visit]]:
    def make_app() -> FastAPI:
        pool = EnginePool(catalog_of("echo"), load_tiny, EngineLimits(debug=True))
        return page_app(ChatService(pool, grace=0.0))

    with serving(make_app) as url:
        yield from visits(browser, url)


def test_the_status_page_counts_what_was_written(visit: Callable[..., Visit]) -> None:
    opened = visit()
    page = opened.page
    page.get_by_role("tab", name="Status").click()
    expect(page.locator("#status")).to_contain_text("0 running, 0 waiting")
    page.get_by_role("tab", name="Chat").click()
    page.fill("#box textarea", "count me")
    page.press("#box textarea", "Enter")
    expect(page.locator("#chat .thought-group")).to_contain_text("tok/s")
    page.get_by_role("tab", name="Status").click()
    expect(page.locator("#status dd", has_text="written")).not_to_contain_text(" 0 written")
    assert opened.complaints == []
