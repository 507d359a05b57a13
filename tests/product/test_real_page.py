"""The page over the whole app and the default model, in a real browser: what a newcomer sees first."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.visits import Visit, visits
from tests.product.conftest import RunningApp

pytestmark = [pytest.mark.browser, pytest.mark.model]
SECONDS = 60_000


@pytest.fixture
def real_visit(browser: Browser, app: RunningApp) -> Iterator[Callable[..., Visit]]:
    yield from visits(browser, app.url)


def test_a_newcomer_asks_sees_paris_stream_in_and_finds_it_again_after_a_reload(real_visit):
    visit = real_visit()
    page = visit.page
    page.fill("#box textarea", "What is the capital of France?")
    page.press("#box textarea", "Enter")
    expect(page.locator("#chat [data-testid=bot]").first).to_contain_text("Paris", timeout=SECONDS)
    expect(page.locator("#chat .thought-group")).to_contain_text("finished", timeout=SECONDS)
    assert (visit.strangers, visit.complaints) == ([], [])
    page.reload()
    expect(page.locator("#chat [data-testid=bot]").first).to_contain_text("Paris")
    assert visit.strangers == []


def test_stop_ends_a_long_answer_and_keeps_what_is_there(real_visit, app):
    page = real_visit().page
    page.fill("#box textarea", "Write a very long story about a lighthouse keeper.")
    page.press("#box textarea", "Enter")
    expect(page.locator("#chat .thought-group")).to_contain_text("writing", timeout=SECONDS)
    page.locator("#box [data-testid=stop-button]").click()
    expect(page.locator("#chat .thought-group")).to_contain_text("stopped")
    assert page.request.get(f"{app.url}/health").json()["running"] == 0
