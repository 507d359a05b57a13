"""What surrounds a chat: settings, files, other visitors, small and dark screens, and silence towards other hosts."""

import json
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.steps import OpenPage, choose, finished, send, wait_until
from tests.ui.scripted_service import ScriptedService

pytestmark = pytest.mark.browser


def test_the_second_precision_loads_in_sight_and_an_impossible_one_says_why(
    visit: OpenPage, service: ScriptedService
) -> None:
    service.pause = 0.2
    page = visit().page
    choose(page, "4-bit NF4")
    expect(page.locator("#model-line")).to_contain_text("reading weights")
    expect(page.locator("#model-line .badge.state.ready")).to_be_visible()
    expect(page.locator("#model-line")).to_contain_text("4-bit NF4")
    choose(page, "int8")
    expect(page.locator("#model-line")).to_contain_text("int8 needs a GPU; there is none.")


def test_a_preset_moves_the_sliders_and_a_moved_slider_makes_it_custom(
    visit: OpenPage, service: ScriptedService
) -> None:
    page = visit().page
    page.get_by_role("button", name="Sampling").click()
    temperature = page.get_by_label("number input for Temperature")
    page.click("#preset input")
    page.get_by_role("option", name="Greedy").click()
    expect(temperature).to_have_value("0")
    send(page, "x")
    finished(page)
    assert service.requests[0].params.temperature == 0
    temperature.fill("0.4")
    expect(page.locator("#preset input")).to_have_value("Custom")


def test_a_chat_is_saved_as_markdown_and_json_and_opened_again(
    visit: OpenPage, service: ScriptedService, tmp_path: Path
) -> None:
    page = visit().page
    send(page, "keep <b> me")
    finished(page)
    with page.expect_download() as markdown:
        page.get_by_role("button", name="Markdown", exact=True).click()
    assert "## You\n\nkeep <b> me" in Path(markdown.value.path()).read_text(encoding="utf-8")
    with page.expect_download() as document:
        page.get_by_role("button", name="JSON", exact=True).click()
    saved = tmp_path / "chat.json"
    document.value.save_as(saved)
    assert json.loads(saved.read_text(encoding="utf-8"))["messages"][0]["content"] == "keep <b> me"
    page.click("#new-chat")
    expect(page.locator("#chat [data-testid=user]")).to_have_count(0)
    page.set_input_files("#files input[type=file]", saved)
    expect(page.locator("#chat [data-testid=user]")).to_have_text("keep <b> me")


def test_two_visitors_chat_at_the_same_time_and_never_see_each_other(visit: OpenPage, service: ScriptedService) -> None:
    service.pause = 0.1
    one, two = visit().page, visit().page
    send(one, "canary one" + " x" * 10)
    send(two, "canary two" + " y" * 10)
    wait_until(lambda: len(service.running) == 2)
    finished(one)
    finished(two)
    assert "two" not in one.locator("#chat").inner_text()
    assert "one" not in two.locator("#chat").inner_text()


def test_the_page_asks_no_other_host_and_makes_no_console_error(visit: OpenPage, service: ScriptedService) -> None:
    opened = visit()
    service.answer = "**bold** `code` $$x$$\n\n```python\nprint(1)\n```\n"
    send(opened.page, "x")
    finished(opened.page)
    opened.page.get_by_role("button", name="Use it from code").click()
    expect(opened.page.locator("#scripts")).to_contain_text("from gradio_client import Client")
    assert opened.strangers == []
    assert opened.complaints == []


@pytest.mark.parametrize("path", ["/?__theme=light", "/?__theme=dark"])
def test_a_phone_needs_no_sideways_scroll_and_the_settings_do_not_cover_the_chat(
    visit: OpenPage, service: ScriptedService, path: str
) -> None:
    page = visit(width=390, height=844, path=path).page
    service.answer = "long " + "x" * 200 + "\n\n```\n" + "y" * 200 + "\n```\n"
    send(page, "x")
    finished(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.locator("#box textarea").is_visible()
    assert page.locator("#system textarea").bounding_box()["x"] < 0  # type: ignore[index]


def test_dark_is_dark_and_light_is_light(visit: OpenPage) -> None:
    ink = "getComputedStyle(document.querySelector('.brand h1')).color.match(/\\d+/g).slice(0, 3).map(Number)"
    assert min(visit(path="/?__theme=dark").page.evaluate(ink)) > 180
    assert max(visit(path="/?__theme=light").page.evaluate(ink)) < 90
