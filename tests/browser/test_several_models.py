"""The page over two models with different tokenizers: choose the other, chat, and lay both side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest
from playwright.sync_api import Browser, Page, expect

from myserve_ui.server.composition import create_app
from myserve_ui.settings import Settings
from tests.browser.steps import choose, send
from tests.browser.visits import Visit, visits
from tests.support.tiny_checkpoint import save_two_models
from tests.ui.live_server import serving

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("models")
    models = tuple(map(str, save_two_models(folder)))
    settings = Settings(model=models, cache=folder / "cache", data=folder / "data", threads=1)
    with serving(lambda: create_app(settings)) as address:
        httpx2.get(address, timeout=60.0)  # returns when the page stands
        yield address


@pytest.fixture
def visit(browser: Browser, url: str) -> Iterator[Callable[..., Visit]]:
    yield from visits(browser, url)


def answered(page: Page, number: int) -> None:
    """What is random seldom ends by itself."""
    expect(page.locator("#chat .thought-group", has_text="cut at the token limit")).to_have_count(number)
    expect(page.locator("#chat button[title=Undo]").last).to_be_enabled()


def test_the_other_model_is_chosen_chats_on_and_is_compared(visit: Callable[..., Visit]) -> None:
    opened = visit()
    page = opened.page
    expect(page.locator("#model input")).to_have_value("first, full precision")
    page.get_by_role("button", name="Sampling").click()
    page.get_by_label("number input for Max tokens").first.fill("8")
    page.get_by_label("number input for Max tokens").first.press("Tab")
    send(page, "Hello the world")
    answered(page, 1)
    choose(page, "second, full precision")
    expect(page.locator("#header")).to_contain_text("second")
    page.locator(".badge.state.ready").wait_for()
    send(page, "And again")
    answered(page, 2)

    page.get_by_role("tab", name="Compare").click()
    expect(page.locator("#base input")).to_have_value("first, full precision")
    expect(page.locator("#candidate input")).to_have_value("first, 4-bit NF4")
    page.click("#candidate input")
    page.get_by_role("option", name="second, full precision").click()
    page.fill("#compare-prompt textarea", "Hello")
    page.press("#compare-prompt textarea", "Enter")
    expect(page.locator("#findings .reason")).to_contain_text("first and second read the prompt as different tokens")
    for pane in ("#pane-base", "#pane-candidate"):
        expect(page.locator(pane)).to_contain_text("tok/s")
        expect(page.locator(f"{pane} .answer")).to_be_visible()
    expect(page.locator("#branch-start")).to_be_hidden()

    page.get_by_role("tab", name="Fidelity report").click()
    page.click("#fidelity-start")
    expect(page.locator("#fidelity-progress")).to_contain_text("first and second read text as different tokens")
    assert (opened.strangers, opened.complaints) == ([], [])
