"""A chat as a visitor sees it, in a real browser, over a scripted service."""

import pytest
from playwright.sync_api import expect

from tests.browser.steps import OpenPage, bot, finished, send, wait_until
from tests.ui.scripted_service import ScriptedService

pytestmark = pytest.mark.browser
LONG = " ".join(f"w{number}" for number in range(400))


def test_a_message_streams_in_and_ends_with_its_numbers(visit: OpenPage, service: ScriptedService) -> None:
    service.pause = 0.3
    page = visit().page
    send(page, "one two three four five six seven eight")
    expect(page.locator("#chat [data-testid=bot]").first).to_contain_text("one two")
    assert "eight" not in bot(page)
    finished(page)
    assert bot(page).strip() == "one two three four five six seven eight"
    numbers = page.locator("#chat .thought-group").inner_text()
    assert "8 tokens" in numbers
    assert "tok/s" in numbers
    assert "queue 2 ms + prefill 48 ms" in numbers
    expect(page.locator("#meter")).to_contain_text("12 / 256 tokens")
    assert page.input_value("#box textarea") == ""


def test_while_it_waits_the_place_in_the_queue_is_shown(visit: OpenPage, service: ScriptedService) -> None:
    service.wait_outputs = 20
    page = visit().page
    send(page, "x")
    expect(page.locator("#chat .thought-group")).to_contain_text("waiting, 2nd in the queue")
    finished(page)


@pytest.mark.parametrize("way", ["button", "escape"])
def test_stop_stops_the_engine_keeps_the_part_and_the_next_message_works(
    visit: OpenPage, service: ScriptedService, way: str
) -> None:
    service.pause = 0.05
    page = visit().page
    send(page, LONG)
    expect(page.locator("#chat [data-testid=bot]").first).to_contain_text("w3")
    if way == "button":
        page.click("[data-testid=stop-button]")
    else:
        page.keyboard.press("Escape")
    wait_until(lambda: not service.running)
    expect(page.locator("#chat .thought-group")).to_contain_text("stopped")
    assert "w3" in bot(page)
    assert "w399" not in bot(page)
    expect(page.locator("[data-testid=submit-button]")).to_be_visible()
    send(page, "next")
    finished(page)
    assert [message.role for message in service.requests[-1].messages] == ["user", "assistant", "user"]


def test_stopped_before_the_first_word_the_question_goes_back_into_the_box(
    visit: OpenPage, service: ScriptedService
) -> None:
    service.wait_outputs = 200
    page = visit().page
    send(page, "hello")
    expect(page.locator("#chat .thought-group")).to_contain_text("waiting")
    page.keyboard.press("Escape")
    wait_until(lambda: not service.running)
    expect(page.locator("#box textarea")).to_have_value("hello")
    expect(page.locator("#chat [data-testid=user]")).to_have_count(0)


def test_shift_enter_writes_a_new_line_and_enter_sends(visit: OpenPage, service: ScriptedService) -> None:
    page = visit().page
    page.fill("#box textarea", "one")
    page.press("#box textarea", "Shift+Enter")
    page.type("#box textarea", "two")
    assert not service.requests
    page.press("#box textarea", "Enter")
    finished(page)
    assert service.requests[0].messages[-1].content == "one\ntwo"


def test_a_reload_brings_chat_and_settings_back(visit: OpenPage, service: ScriptedService) -> None:
    page = visit().page
    page.fill("#system textarea", "Be brief.")
    send(page, "remember me")
    finished(page)
    page.reload()
    finished(page)
    expect(page.locator("#chat [data-testid=user]")).to_have_text("remember me")
    expect(page.locator("#system textarea")).to_have_value("Be brief.")
    send(page, "and me")
    finished(page, 2)
    said = [message.content for message in service.requests[-1].messages]
    assert said == ["Be brief.", "remember me", "remember me", "and me"]


def test_a_reload_in_the_middle_ends_the_work_and_keeps_the_part(visit: OpenPage, service: ScriptedService) -> None:
    service.pause = 0.05
    page = visit().page
    send(page, LONG)
    expect(page.locator("#chat [data-testid=bot]").first).to_contain_text("w30")
    page.reload()
    expect(page.locator("#chat .thought-group")).to_contain_text("interrupted")
    assert "w5" in bot(page)
    wait_until(lambda: not service.running)


def test_a_closed_tab_ends_the_work(visit: OpenPage, service: ScriptedService) -> None:
    service.pause = 0.05
    page = visit().page
    send(page, LONG)
    expect(page.locator("#chat [data-testid=bot]").first).to_contain_text("w1")
    page.close()
    wait_until(lambda: not service.running)
    assert service.num_aborted == 1


@pytest.mark.parametrize(
    "text",
    ["<left> middle </left> a<b && c>d", "It costs $5, then $7.", "&lt;b&gt; <b>bold?</b>", "<think> x </think> y"],
)
def test_brackets_dollars_and_entities_are_shown_and_sent_as_written(
    visit: OpenPage, service: ScriptedService, text: str
) -> None:
    page = visit().page
    send(page, text)
    finished(page)
    assert bot(page).strip() == text
    assert page.locator("#chat [data-testid=user]").inner_text().strip() == text
    assert page.locator("#chat .katex").count() == 0
    send(page, "again")
    finished(page, 2)
    assert [message.content for message in service.requests[1].messages] == [text, text, "again"]


@pytest.mark.parametrize(
    "text",
    [
        "text\n    ```\n<h1>BIG</h1>",
        "    ```\n\n<img src=x onerror=alert(1)><b>B</b>",
        "1. x\n   ```\n<h1>BIG</h1>",
        "[r]: /u 'a\n```\nb'\n<h1>BIG</h1>",
    ],
)
def test_no_tag_behind_what_is_no_fence_becomes_a_part_of_the_page(
    visit: OpenPage, service: ScriptedService, text: str
) -> None:
    page = visit().page
    send(page, text)
    finished(page)
    page.reload()
    finished(page)
    expect(page.locator("#chat [data-testid=bot]").first).to_contain_text("<h1>" if "<h1>" in text else "<b>B</b>")
    assert page.locator("#chat .message").locator("h1, b, [onerror]").count() == 0
    send(page, "again")
    finished(page, 2)
    assert [message.content for message in service.requests[1].messages] == [text, text, "again"]


def test_the_copy_button_copies_the_answer_as_written_without_its_numbers(
    visit: OpenPage, service: ScriptedService
) -> None:
    page = visit().page
    send(page, "  a <b> & &amp; c")
    finished(page)
    page.locator("#chat .message-buttons-left button[title*=Copy]").click()
    wait_until(lambda: page.evaluate("navigator.clipboard.readText()") == "  a <b> & &amp; c")


@pytest.mark.parametrize("formula", ["so \\(x^2\\)", "so\n\\[\nx^2\n\\]\n"])
def test_math_between_explicit_delimiters_is_typeset_and_code_keeps_its_brackets(
    visit: OpenPage, service: ScriptedService, formula: str
) -> None:
    service.answer = formula + " and\n\n```html\n<b>raw</b>\n```\n"
    page = visit().page
    send(page, "x")
    finished(page)
    expect(page.locator("#chat .katex").first).to_be_visible()
    expect(page.locator("#chat pre")).to_contain_text("<b>raw</b>")


def test_a_refused_message_says_why_and_stays_in_the_box(visit: OpenPage, service: ScriptedService) -> None:
    page = visit().page
    send(page, "y" * 3000)
    expect(page.locator("#chat .thought-group")).to_contain_text("The prompt has 3000 tokens, the context is 2000.")
    assert page.input_value("#box textarea") == "y" * 3000
    assert page.get_by_text("Error", exact=True).count() == 0
    send(page, "short")
    finished(page)
    assert page.locator("#chat .thought-group").count() == 1


def test_spaces_alone_are_not_sent(visit: OpenPage, service: ScriptedService) -> None:
    page = visit().page
    send(page, "   ")
    expect(page.locator("#chat .thought-group")).to_contain_text("The message is empty")
    assert page.input_value("#box textarea") == "   "
    assert not service.requests


def test_a_failing_step_ends_in_a_sentence_below_the_part(visit: OpenPage, service: ScriptedService) -> None:
    service.fail_after = 2
    page = visit().page
    send(page, "a b c")
    expect(page.locator("#chat .thought-group")).to_contain_text("The step failed. Try again.")
    assert bot(page).strip() == "a b"
    assert page.get_by_text("Error", exact=True).count() == 0


def test_an_unexpected_failure_is_a_sentence_too_and_tells_no_secret(visit: OpenPage, service: ScriptedService) -> None:
    service.refusal = RuntimeError("/hidden/path")  # type: ignore[assignment]
    page = visit().page
    send(page, "x")
    expect(page.locator("#chat .thought-group")).to_contain_text("Something went wrong in the server")
    assert "hidden/path" not in page.content()
    assert page.input_value("#box textarea") == "x"


def test_retry_asks_the_last_question_again(visit: OpenPage, service: ScriptedService) -> None:
    page = visit().page
    send(page, "first")
    finished(page)
    service.answer = "another answer"
    page.locator("#chat button[title=Retry]").click()
    expect(page.locator("#chat [data-testid=bot]").first).to_contain_text("another answer")
    finished(page)
    assert [message.content for message in service.requests[1].messages] == ["first"]


def test_undo_takes_the_last_turn_back_into_the_box(visit: OpenPage, service: ScriptedService) -> None:
    page = visit().page
    send(page, "one")
    finished(page)
    send(page, "two")
    finished(page, 2)
    page.locator("#chat button[title=Undo]").click()
    expect(page.locator("#box textarea")).to_have_value("two")
    finished(page, 1)


def test_editing_an_earlier_turn_asks_it_again_and_drops_what_followed(
    visit: OpenPage, service: ScriptedService
) -> None:
    page = visit().page
    send(page, "one <b>")
    finished(page)
    send(page, "two")
    finished(page, 2)
    page.locator("#chat button[title=Edit]").first.click()
    box = page.locator("#chat textarea").first
    box.fill("uno <i>")
    page.locator("#chat button[title=Submit]").first.click()
    expect(page.locator("#chat [data-testid=bot]").first).to_contain_text("uno <i>")
    finished(page, 1)
    assert [message.content for message in service.requests[2].messages] == ["uno <i>"]


def test_new_chat_clears_the_page_for_good(visit: OpenPage, service: ScriptedService) -> None:
    page = visit().page
    send(page, "one")
    finished(page)
    page.click("#new-chat")
    expect(page.locator("#chat [data-testid=user]")).to_have_count(0)
    page.reload()
    page.locator(".badge.state.ready").wait_for()
    expect(page.locator("#chat [data-testid=user]")).to_have_count(0)


def test_an_example_starts_a_chat(visit: OpenPage, service: ScriptedService) -> None:
    page = visit().page
    page.locator("#chat .example").last.click()
    finished(page)
    assert service.requests[0].messages[-1].content == "What is the capital of France?"
