"""What a visitor does and waits for, in the words of the tests."""

import time
from collections.abc import Callable

from playwright.sync_api import Page, expect

from tests.browser.visits import Visit

OpenPage = Callable[..., Visit]


def send(page: Page, text: str) -> None:
    page.fill("#box textarea", text)
    page.press("#box textarea", "Enter")


def finished(page: Page, number: int = 1) -> None:
    """The answer is there, and the page has heard that the turn is over: its buttons are alive again."""
    expect(page.locator("#chat .thought-group", has_text="finished")).to_have_count(number)
    expect(page.locator("#chat button[title=Undo]").last).to_be_enabled()


def bot(page: Page) -> str:
    return page.locator("#chat [data-testid=bot]").first.inner_text()


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def choose(page: Page, name: str) -> None:
    page.click("#model input")
    page.get_by_role("option", name=name).click()
