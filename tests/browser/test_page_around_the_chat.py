"""What surrounds a chat: settings, files, other visitors, small and dark screens, and silence towards other hosts."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import expect

from myserve_ui.core.model_info import LoadState
from tests.browser.steps import OpenPage, choose, finished, send, wait_until
from tests.ui.scripted_service import FULL, ScriptedService

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


BAD_FILES = {
    "cut": b'{"messages":[',
    "list": b"[1,2,3]",
    "empty": b"",
    "other": b'{"a":1}',
    "binary": bytes(range(256)),
    "deep": b"[" * 5000,
    "number": b'{"format": "myserve-chat", "version": 1, "messages": [NaN]}',
    "role": b'{"format": "myserve-chat", "version": 1, "messages": [{"role": "banana", "content": "x"}]}',
    "half": b'{"format": "myserve-chat", "version": 1, "messages": [{"role": "user", "content": "\\ud800"}]}',
}


def test_a_file_that_is_no_saved_chat_is_refused_in_a_sentence_and_leaves_the_chat(
    visit: OpenPage, service: ScriptedService, tmp_path: Path
) -> None:
    page = visit().page
    send(page, "keep me")
    finished(page)
    for name, content in BAD_FILES.items():
        (tmp_path / f"{name}.json").write_bytes(content)
        page.set_input_files("#files input[type=file]", tmp_path / f"{name}.json")
        expect(page.get_by_test_id("toast-body"), name).to_contain_text("file")
        page.get_by_test_id("toast-close").click()
        expect(page.get_by_test_id("toast-body"), name).to_have_count(0)
    assert page.get_by_text("Error", exact=True).count() == 0
    assert page.locator("#chat [data-testid=user]").inner_text().strip() == "keep me"


def test_a_file_with_a_setting_that_cannot_be_used_opens_without_it(
    visit: OpenPage, service: ScriptedService, tmp_path: Path
) -> None:
    settings = {"temperature": "hot", "system_prompt": "Be brief."}
    saved = {"format": "myserve-chat", "version": 1, "settings": settings, "messages": []}
    (tmp_path / "chat.json").write_text(json.dumps(saved), encoding="utf-8")
    page = visit().page
    page.set_input_files("#files input[type=file]", tmp_path / "chat.json")
    expect(page.locator("#system textarea")).to_have_value("Be brief.")
    expect(page.get_by_test_id("toast-body")).to_contain_text("cannot be used here: temperature")


def test_a_very_long_message_scrolls_in_the_box_and_its_button_stays_in_sight(
    visit: OpenPage, service: ScriptedService
) -> None:
    page = visit().page
    send(page, "many words " * 8000)
    expect(page.locator("#chat .thought-group")).to_contain_text("Not sent")
    box = page.locator("#box").bounding_box()
    assert box is not None
    assert box["y"] + box["height"] < 800
    expect(page.locator("#box button")).to_be_in_viewport()


def test_a_second_tab_of_the_same_browser_is_told_in_both_and_forgotten_when_it_is_closed(
    visit: OpenPage, service: ScriptedService
) -> None:
    first = visit().page
    second = first.context.new_page()
    expect(first.locator("#elsewhere")).to_have_count(0)
    second.goto(first.url)
    expect(second.locator("#elsewhere")).to_contain_text("open in another tab")
    expect(first.locator("#elsewhere")).to_be_visible()
    second.close(run_before_unload=True)
    expect(first.locator("#elsewhere")).to_have_count(0)


def test_a_tab_that_is_closing_says_no_more_that_it_is_there(visit: OpenPage, service: ScriptedService) -> None:
    first = visit().page
    second = first.context.new_page()
    second.goto(first.url)
    expect(first.locator("#elsewhere")).to_be_visible()
    second.evaluate("dispatchEvent(new Event('pagehide'))")  # a busy browser takes a while from here to the end
    expect(first.locator("#elsewhere")).to_have_count(0)
    first.wait_for_timeout(300)
    expect(first.locator("#elsewhere")).to_have_count(0)


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


def test_a_page_that_is_opened_while_the_weights_load_becomes_ready(visit: OpenPage, service: ScriptedService) -> None:
    service.catalog["tiny"] = replace(FULL, state=LoadState.UNLOADED)
    service.pause = 0.05
    assert "tiny" in visit().page.locator("#model-line").inner_text()  # a visit waits until the page says ready
