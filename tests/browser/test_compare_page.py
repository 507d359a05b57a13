"""The Compare page over two tiny real engines: answers, evidence, a branch, a report, memory."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI
from playwright.sync_api import Browser, Page, expect

from tests.browser.steps import wait_until
from tests.browser.visits import Visit, visits
from tests.support.precisions import TEXT, make_comparisons
from tests.ui.live_server import page_app, serving

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    def make_app() -> FastAPI:
        comparisons = make_comparisons(pause=0.004)
        return page_app(comparisons.chat, comparisons=comparisons)

    with serving(make_app) as address:
        yield address


@pytest.fixture
def visit(browser: Browser, url: str) -> Iterator[Callable[..., Visit]]:
    yield from visits(browser, url)


def compare(page: Page, prompt: str) -> None:
    page.get_by_role("tab", name="Compare").click()
    page.fill("#compare-prompt textarea", prompt)
    page.press("#compare-prompt textarea", "Enter")


def set_max_tokens(page: Page, number: int) -> None:
    page.get_by_role("button", name="Settings of both").click()
    max_tokens = page.locator("#compare-settings").get_by_label("number input for Max tokens")
    max_tokens.fill(str(number))
    max_tokens.press("Tab")


def open_part(page: Page, name: str) -> None:
    page.get_by_role("tab", name="Compare").click()
    page.get_by_role("tab", name=name).click()


def measure(page: Page, text: str) -> None:
    open_part(page, "Fidelity report")
    box = page.locator("#fidelity-text textarea")
    expect(box).not_to_have_value("")  # the part is drawn when it is first shown, with a text of its own
    box.fill(text)
    expect(box).to_have_value(text)
    page.click("#fidelity-start")


def choose_file(page: Page, button: str, path: Path) -> None:
    with page.expect_file_chooser() as chooser:
        page.click(button)
    chooser.value.set_files(path)


def test_two_answers_end_in_a_verdict_with_the_split_marked_on_both_sides(visit: Callable[..., Visit]) -> None:
    opened = visit()
    page = opened.page
    compare(page, "Tell me <b>more</b> & more.")
    expect(page.locator(".verdict h3")).to_have_text("Quantisation changed the choice")
    expect(page.locator(".chip.split")).to_have_count(2)
    expect(page.locator("#pane-base")).to_contain_text("tok/s")
    expect(page.locator("#pane-candidate")).to_contain_text("8.0 bits")
    expect(page.locator("#compare-start")).to_be_visible()
    assert (opened.strangers, opened.complaints) == ([], [])


def test_a_chip_tells_its_numbers_to_the_pointer_and_to_the_keyboard(visit: Callable[..., Visit]) -> None:
    page = visit().page
    compare(page, "Hello")
    chips = page.locator("[aria-label^=Base] .chip")
    chips.nth(3).hover()
    expect(page.locator(".chip-details")).to_contain_text("Token 4")
    chips.nth(0).focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".chip-details")).to_contain_text("Token 2")
    page.get_by_label("Δp, candidate − base").check()
    assert page.get_by_label("divergence (KLD)").is_checked() is False


def test_the_other_model_goes_on_from_the_chosen_token(visit: Callable[..., Visit]) -> None:
    page = visit().page
    compare(page, "Hello")
    page.locator("[aria-label^=Candidate] .chip").nth(4).click()
    expect(page.get_by_label("Continue at token")).to_have_value("5")
    expect(page.get_by_label("the candidate's answer")).to_be_checked()
    page.click("#branch-start")
    expect(page.locator("#branch-answer .line")).to_contain_text("tok/s")
    expect(page.locator("#branch-answer .model")).to_contain_text("full precision · tiny from token 5")


def test_escape_stops_both_and_keeps_what_is_there(visit: Callable[..., Visit]) -> None:
    page = visit().page
    page.get_by_role("tab", name="Compare").click()
    set_max_tokens(page, 400)
    page.fill("#compare-prompt textarea", "A long one")
    page.click("#compare-start")
    page.locator("#pane-base .answer").wait_for()
    page.keyboard.press("Escape")
    expect(page.locator("#compare-start")).to_be_visible()
    expect(page.locator(".pane[data-state=running]")).to_have_count(0)
    assert page.locator("#pane-base .answer").inner_text()
    compare(page, "And again, at once")
    expect(page.locator("#pane-base .answer")).to_be_visible()


def test_a_side_that_is_not_possible_says_why_and_the_other_answers(visit: Callable[..., Visit]) -> None:
    page = visit().page
    page.get_by_role("tab", name="Compare").click()
    page.click("#candidate input")
    page.get_by_role("option", name="not possible here").click()
    compare(page, "Hello")
    expect(page.locator("#pane-candidate .problem")).to_contain_text("not possible here")
    expect(page.locator("#pane-base .answer")).to_be_visible()
    expect(page.locator("#findings .reason")).to_contain_text("One side has no whole answer")


def test_an_empty_prompt_is_told(visit: Callable[..., Visit]) -> None:
    page = visit().page
    page.get_by_role("tab", name="Compare").click()
    page.click("#compare-start")
    expect(page.locator("#findings")).to_contain_text("The prompt is empty")


def test_a_report_is_measured_saved_and_opened_again(visit: Callable[..., Visit], tmp_path: Path) -> None:
    opened = visit()
    page = opened.page
    open_part(page, "Fidelity report")
    page.get_by_label("Window").fill("64")
    page.get_by_label("Stride").fill("64")
    measure(page, TEXT)
    expect(page.locator(".report .bars i")).to_have_count(18)
    headline = page.locator(".report .lead").inner_text()
    with page.expect_download() as saved:
        page.click("#fidelity-save")
    saved.value.save_as(tmp_path / "report.json")
    page.reload()
    open_part(page, "Fidelity report")
    choose_file(page, "#fidelity-open", tmp_path / "report.json")
    expect(page.locator(".report .lead")).to_have_text(headline)
    assert (opened.strangers, opened.complaints) == ([], [])


def test_files_that_cannot_be_used_are_told_and_nothing_is_lost(visit: Callable[..., Visit], tmp_path: Path) -> None:
    page = visit().page
    measure(page, " ")
    expect(page.locator("#fidelity-progress")).to_contain_text("The text is empty")
    page.fill("#fidelity-text textarea", "kept")
    (tmp_path / "broken.json").write_text("{")
    choose_file(page, "#fidelity-open", tmp_path / "broken.json")
    expect(page.locator("#fidelity-progress")).to_contain_text("The file is not JSON")
    (tmp_path / "latin.txt").write_bytes("Überfall".encode("latin-1"))
    choose_file(page, "#fidelity-upload", tmp_path / "latin.txt")
    expect(page.locator("#fidelity-progress")).to_contain_text("not UTF-8")
    assert page.input_value("#fidelity-text textarea") == "kept"


def test_a_report_can_be_stopped_and_the_engines_are_free(visit: Callable[..., Visit]) -> None:
    page = visit().page
    open_part(page, "Fidelity report")
    page.get_by_label("Window").fill("64")
    page.get_by_label("Stride").fill("1")
    measure(page, TEXT * 8)
    expect(page.locator("[role=progressbar]")).to_contain_text("tokens scored")
    page.click("#fidelity-stop")
    expect(page.locator("#fidelity-progress")).to_contain_text("Stopped")
    page.get_by_label("Stride").fill("64")
    measure(page, TEXT)
    expect(page.locator(".report")).to_be_visible()


@pytest.mark.parametrize(("width", "path"), [(390, "/?__theme=dark"), (1440, "/")])
def test_nothing_is_wider_than_the_window(visit: Callable[..., Visit], width: int, path: str) -> None:
    page = visit(width=width, path=path).page
    compare(page, "Hello")
    page.locator(".verdict").wait_for()
    open_part(page, "Memory")
    page.click("#memory-start")
    expect(page.locator("#memory-table")).to_contain_text(re.compile(r"Peak so far, everything together[\d,]+ MiB"))
    wait_until(lambda: page.evaluate("document.documentElement.scrollWidth") == width)
