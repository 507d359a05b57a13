"""Ending an answer: at any moment, by whatever needs the chat, and with nothing left behind."""

import json
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.steps import OpenPage, bot, choose, finished, send, wait_until
from tests.ui.scripted_service import ScriptedService

pytestmark = pytest.mark.browser
LONG = " ".join(f"w{number}" for number in range(400))

ENTER_THEN = """([text, then]) => {
    const box = document.querySelector("#box textarea");
    const fire = (kind, key) => box.dispatchEvent(new KeyboardEvent(kind, { key, bubbles: true, cancelable: true }));
    box.value = text;
    box.dispatchEvent(new Event("input", { bubbles: true }));
    setTimeout(() => {
        fire("keydown", "Enter");
        fire("keypress", "Enter");
        if (then === "escape") fire("keydown", "Escape");
        else setTimeout(() => document.querySelector("#box button").click(), Number(then));
    }, 100);
}"""
"""Faster than a person and than playwright: Escape in the same tick, or a click on the button after milliseconds."""


def stopped(page: Page, service: ScriptedService) -> None:
    """The question came and went: nothing runs, the chat is empty, the text is back, and it may be sent again."""
    expect(page.locator("#box textarea")).to_have_value(LONG)
    expect(page.locator("#chat [data-testid=user]")).to_have_count(0)
    expect(page.locator("#box .stop-button")).to_have_count(0)
    expect(page.locator("#box .submit-button")).to_have_attribute("aria-label", "Send")
    wait_until(lambda: not service.running)


@pytest.mark.parametrize("then", ["escape", "5", "40"])
def test_a_stop_right_after_sending_is_not_lost(visit: OpenPage, service: ScriptedService, then: str) -> None:
    service.wait_outputs = 400
    page = visit().page
    page.evaluate(ENTER_THEN, [LONG, then])
    page.wait_for_timeout(150)
    stopped(page, service)
    service.wait_outputs = 0
    page.press("#box textarea", "Enter")
    finished(page)


def test_an_escape_while_nothing_runs_is_not_meant_for_the_next_message(
    visit: OpenPage, service: ScriptedService
) -> None:
    page = visit().page
    page.keyboard.press("Escape")
    send(page, "hello")
    finished(page)


def test_new_chat_ends_a_running_answer_and_clears_for_good(visit: OpenPage, service: ScriptedService) -> None:
    service.pause = 0.05
    page = visit().page
    send(page, LONG)
    expect(page.locator("#chat [data-testid=bot]").first).to_contain_text("w3")
    page.click("#new-chat")
    expect(page.locator("#chat [data-testid=user]")).to_have_count(0)
    assert not service.running
    page.wait_for_timeout(300)
    expect(page.locator("#chat [data-testid=user]")).to_have_count(0)
    service.pause = 0.0
    send(page, "fresh")
    finished(page)
    assert [message.content for message in service.requests[-1].messages] == ["fresh"]


def test_a_message_sent_while_weights_load_is_shown_and_a_stop_leaves_nothing_of_it(
    visit: OpenPage, service: ScriptedService
) -> None:
    page = visit().page
    send(page, "first")
    finished(page)
    service.pause = 2.0
    choose(page, "4-bit NF4")
    expect(page.locator("#model-line")).to_contain_text("reading weights")
    expect(page.locator("#chat .thought-group")).to_have_count(1)
    send(page, "second")
    expect(page.locator("#chat [data-testid=user]")).to_have_count(2)
    expect(page.locator("#chat .thought-group").last).to_contain_text("loading tiny:nf4")
    expect(page.locator("#box textarea")).to_have_value("")
    page.keyboard.press("Escape")
    expect(page.locator("#box textarea")).to_have_value("second")
    expect(page.locator("#chat .thought-group")).to_have_count(1)
    assert "stopped" not in page.locator("#chat").inner_text()
    assert bot(page).strip() == "first"


def test_the_send_button_has_a_name_that_says_what_it_does(visit: OpenPage, service: ScriptedService) -> None:
    service.pause = 0.2
    page = visit().page
    expect(page.get_by_role("button", name="Send", exact=True)).to_be_visible()
    send(page, LONG)
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(page.get_by_role("button", name="Send", exact=True)).to_be_visible()


def test_opening_a_file_ends_a_running_answer_and_shows_the_file(
    visit: OpenPage, service: ScriptedService, tmp_path: Path
) -> None:
    service.pause = 0.05
    saved = {"format": "myserve-chat", "version": 1, "messages": [{"role": "user", "content": "from the file"}]}
    (tmp_path / "chat.json").write_text(json.dumps(saved), encoding="utf-8")
    page = visit().page
    send(page, LONG)
    expect(page.locator("#chat [data-testid=bot]").first).to_contain_text("w3")
    page.set_input_files("#files input[type=file]", tmp_path / "chat.json")
    expect(page.locator("#chat [data-testid=user]")).to_have_text("from the file")
    assert not service.running
