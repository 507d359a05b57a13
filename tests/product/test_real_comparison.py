"""Full precision against nf4 on the default model, in a real browser: what 4 bits change, and what they cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.visits import Visit, visits
from tests.product.conftest import ROOT, RunningApp

pytestmark = [pytest.mark.browser, pytest.mark.model]
LOAD, ANSWER = 90_000, 60_000
TEXT_CHARACTERS = 900
"""Some two hundred tokens: enough for every number of a report, not for small standard errors."""


@pytest.fixture
def real_visit(browser: Browser, app: RunningApp) -> Iterator[Callable[..., Visit]]:
    yield from visits(browser, app.url)


def test_both_precisions_answer_part_and_are_measured(real_visit: Callable[..., Visit], tmp_path: Path) -> None:
    visit = real_visit()
    page = visit.page
    page.get_by_role("tab", name="Compare").click()
    expect(page.locator("#caveats")).to_contain_text("saves memory and not time")
    expect(page.locator("#caveats")).to_contain_text("stored there in 4 bits")
    compare(page)
    report = measure(page, tmp_path / "report.json")
    page.reload()
    page.get_by_role("tab", name="Compare").click()
    page.get_by_role("tab", name="Fidelity report").click()
    with page.expect_file_chooser() as chooser:
        page.click("#fidelity-open")
    chooser.value.set_files(tmp_path / "report.json")
    expect(page.locator(".report .lead")).to_have_text(report)
    assert (visit.strangers, visit.complaints) == ([], [])


def compare(page: Page) -> None:
    """Both write one after the other, and the place where they part is marked on both sides."""
    page.get_by_role("button", name="Settings of both").click()
    max_tokens = page.locator("#compare-settings").get_by_label("number input for Max tokens")
    max_tokens.fill("16")
    max_tokens.press("Tab")
    page.fill("#compare-prompt textarea", "Explain why the sky is blue, in two sentences.")
    page.press("#compare-prompt textarea", "Enter")
    page.locator("#pane-base .pane[data-state=running] .answer").wait_for(timeout=LOAD)
    page.locator("#pane-candidate .pane[data-state=running] .answer").wait_for(timeout=ANSWER)
    expect(page.locator(".verdict h3")).to_have_text("Quantisation changed the choice", timeout=ANSWER)
    expect(page.locator(".chip.split")).to_have_count(2)
    expect(page.locator("#pane-candidate")).to_contain_text("10.0 bits")
    expect(page.locator(".evidence .notes")).to_contain_text("Measured in this run")


def measure(page: Page, saved_as: Path) -> str:
    """A short report with its plot, saved; its headline."""
    page.get_by_role("tab", name="Fidelity report").click()
    text = (ROOT / "assets" / "held_out.txt").read_text(encoding="utf-8")
    expect(page.locator("#fidelity-text textarea")).to_have_value(text)
    page.fill("#fidelity-text textarea", text[:TEXT_CHARACTERS])
    page.click("#fidelity-start")
    expect(page.locator(".report .lead")).to_contain_text("SmolLM2-135M-Instruct:nf4", timeout=ANSWER)
    expect(page.locator(".report .bars i[style*='100.0%']")).to_have_count(1)
    with page.expect_download() as saved:
        page.click("#fidelity-save")
    saved.value.save_as(saved_as)
    return page.locator(".report .lead").inner_text()
