"""The Benchmark page over tiny real models and a real port: a run, its files, saved runs, Stop, and bad input."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.browser.steps import wait_until
from tests.browser.visits import Visit, visits
from tests.ui.bench_app import bench_app
from tests.ui.live_server import serving

pytestmark = pytest.mark.browser

EVERY_PLOT = (
    "Throughput and concurrency",
    "Latency and concurrency",
    "Goodput and concurrency",
    "Time to first token, percentiles",
    "Time per output token, percentiles",
    "Distribution of latency",
    "Roofline",
    "Timeline: tiny, full precision, 4 at once",
)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(lambda: bench_app(tmp_path_factory.mktemp("runs"), pause=0.002)) as address:
        yield address


@pytest.fixture
def visit(browser: Browser, url: str) -> Iterator[Callable[..., Visit]]:
    yield from visits(browser, url)


def fill(page: Page, name: str, value: str) -> None:
    page.fill(f"#{name} input", value)


def run(page: Page, *, levels: str = "2, 4", requests: str = "4", answer: str = "8") -> None:
    page.get_by_role("tab", name="Benchmark").click()
    fill(page, "bench-levels", levels)
    fill(page, "bench-requests", requests)
    fill(page, "bench-answer", answer)
    page.click("#bench-start")


def finished(page: Page) -> None:
    expect(page.locator("figure.plot").first).to_be_visible(timeout=30_000)
    expect(page.locator("#bench-start")).to_be_visible()


def save(page: Page, button: str, path: Path) -> str:
    with page.expect_download() as saved:
        page.click(button)
    saved.value.save_as(path)
    return path.read_text(encoding="utf-8")


def open_file(page: Page, path: Path) -> None:
    with page.expect_file_chooser() as chooser:
        page.click("#bench-file")
    chooser.value.set_files(path)


def test_a_run_shows_progress_the_table_and_every_plot_and_is_saved_and_opened_again(
    visit: Callable[..., Visit], tmp_path: Path
) -> None:
    opened = visit()
    page = opened.page
    run(page, requests="24", answer="32")
    expect(page.locator("#bench-progress [role=progressbar]")).to_contain_text("requests")
    expect(page.locator("#bench-progress [role=progressbar]")).to_contain_text("left")
    finished(page)
    expect(page.locator("figure.plot h4", has_text=EVERY_PLOT[-1])).to_be_visible()
    assert set(EVERY_PLOT) <= set(page.locator("figure.plot h4").all_inner_texts())
    expect(page.locator("#bench-table")).to_contain_text("24 of 24")
    headline = page.locator("#bench-summary .lead").inner_text()
    document = json.loads(save(page, "#bench-json", tmp_path / "run.json"))
    assert len(document["requests"]) == 48
    assert save(page, "#bench-csv", tmp_path / "rows.csv").count("\n") == 3
    assert save(page, "#bench-raw", tmp_path / "requests.csv").count("\n") == 49
    page.get_by_role("button", name="Run it again from elsewhere").click()
    expect(page.locator("#bench-again")).to_contain_text("python -m myserve_ui bench")
    page.reload()
    page.get_by_role("tab", name="Benchmark").click()
    page.get_by_role("button", name="Saved runs").click()
    open_file(page, tmp_path / "run.json")
    expect(page.locator("#bench-summary .lead")).to_have_text(headline)
    assert set(EVERY_PLOT) <= set(page.locator("figure.plot h4").all_inner_texts())
    assert (opened.strangers, opened.complaints) == ([], [])


def test_saved_runs_are_opened_compared_and_deleted(visit: Callable[..., Visit]) -> None:
    for _ in range(2):
        page = visit().page  # a page of its own, where the first run's plots are not taken for the second's
        run(page, levels="2")
        finished(page)
    page.reload()
    page.get_by_role("tab", name="Benchmark").click()
    page.get_by_role("button", name="Saved runs").click()
    page.click("#bench-open")
    expect(page.locator("#bench-summary .lead")).to_contain_text("2 at once")
    page.click("#bench-compare")
    expect(page.locator("#bench-run-words")).to_contain_text("Choose two different runs")
    page.click("#bench-run-other input")
    runs = page.locator("#bench-run-other").get_by_role("option")
    count = runs.count()
    runs.nth(1).click()
    page.click("#bench-compare")
    expect(page.locator("#bench-comparison")).to_contain_text("Paired")
    page.click("#bench-delete")
    expect(page.locator("#bench-run-words")).to_contain_text("Deleted")
    page.click("#bench-run input")
    expect(page.locator("#bench-run").get_by_role("option")).to_have_count(count - 1)


def test_stop_ends_the_run_and_keeps_what_is_measured(visit: Callable[..., Visit], url: str) -> None:
    page = visit().page
    run(page, levels="2, 4", requests="400", answer="64")
    expect(page.locator("#bench-progress")).to_contain_text(re.compile(r": [1-9]\d* of 400 requests"))
    page.click("#bench-stop")
    expect(page.locator("#bench-progress")).to_contain_text("Stopped")
    wait_until(lambda: page.request.get(f"{url}/health").json()["running"] == 0)
    expect(page.locator("#bench-summary")).to_contain_text("Stopped early")
    run(page)
    finished(page)


def test_a_second_visitor_waits_for_its_turn_and_may_give_up(visit: Callable[..., Visit]) -> None:
    first, second = visit().page, visit().page
    run(first, requests="400", answer="64")
    expect(first.locator("#bench-progress")).to_contain_text("requests")
    run(second)
    expect(second.locator("#bench-progress")).to_contain_text("Waiting for its turn")
    second.click("#bench-stop")
    expect(second.locator("#bench-start")).to_be_visible()
    first.keyboard.press("Escape")
    expect(first.locator("#bench-progress")).to_contain_text("Stopped")
    run(second)
    finished(second)


def test_bad_input_is_told_in_a_sentence_and_nothing_is_lost(visit: Callable[..., Visit], tmp_path: Path) -> None:
    page = visit().page
    for levels, words in (("0", "concurrency must be in"), ("many", "Loads are numbers"), ("", "at least one load")):
        run(page, levels=levels)
        expect(page.locator("#bench-progress .problem")).to_contain_text(words)
        expect(page.locator("#bench-start")).to_be_visible()
    run(page, requests="-3")
    expect(page.locator("#bench-progress .problem")).to_contain_text("requests must be in")
    expect(page.locator("#bench-start")).to_be_visible()
    page.get_by_role("button", name="Saved runs").click()
    (tmp_path / "other.json").write_text('{"kind": "fidelity"}')
    open_file(page, tmp_path / "other.json")
    expect(page.locator("#bench-run-words .problem")).to_contain_text("no benchmark")
    page.get_by_role("button", name="More settings").click()
    (tmp_path / "empty.txt").write_text("\n")
    page.locator("#bench-prompts input[type=file]").set_input_files(tmp_path / "empty.txt")
    expect(page.locator("#bench-prompts")).to_contain_text("empty")
    run(page)
    expect(page.locator("#bench-progress .problem")).to_contain_text("holds no prompt")


def test_a_value_that_gradio_itself_refuses_gives_run_back(visit: Callable[..., Visit]) -> None:
    page = visit().page

    def spoil(route: Route) -> None:
        route.continue_(post_data=(route.request.post_data or "").replace('"closed"', '"banana"'))

    page.route("**/queue/join*", spoil)
    run(page)
    expect(page.locator("#bench-progress .problem")).to_contain_text("cannot be used")
    expect(page.locator("#bench-start")).to_be_visible()


def test_a_server_that_is_not_there_is_counted_and_told(visit: Callable[..., Visit]) -> None:
    page = visit().page
    page.get_by_role("tab", name="Benchmark").click()
    page.get_by_role("button", name="Another server").click()
    fill(page, "bench-url", "http://127.0.0.1:9/v1")
    fill(page, "bench-url-model", "ghost")
    run(page, levels="2")
    finished(page)
    expect(page.locator("#bench-summary .failures")).to_contain_text("4 × the server cannot be reached")
    expect(page.locator("#bench-summary .lead")).to_contain_text("no request was completed")


def test_the_roofline_is_measured_before_any_run_and_reckoned_for_any_device(visit: Callable[..., Visit]) -> None:
    opened = visit()
    page = opened.page
    page.get_by_role("tab", name="Benchmark").click()
    page.get_by_role("tab", name="Roofline").click()
    page.click("#roofline-measure")
    expect(page.locator("#roofline-card .tiles")).to_contain_text("1.00 GB/s")
    page.get_by_role("tab", name="Calculator").click()
    expect(page.locator("#calculator-card .tiles")).to_contain_text("15.9 ms")
    page.click("#known-device input")
    page.get_by_role("option", name="H200 SXM").click()
    expect(page.locator("#calculator-card")).to_contain_text("NVIDIA H200")
    fill(page, "calc-parameters", "lots")
    expect(page.locator("#calculator-card .problem")).to_contain_text("written like 135M")
    assert (opened.strangers, opened.complaints) == ([], [])


@pytest.mark.parametrize(("width", "path"), [(390, "/?__theme=dark"), (1280, "/?__theme=light")])
def test_nothing_is_wider_than_the_window(visit: Callable[..., Visit], width: int, path: str) -> None:
    page = visit(width=width, path=path).page
    run(page)
    finished(page)
    wait_until(lambda: page.evaluate("document.documentElement.scrollWidth") == width)
    sizes = page.locator("figure.plot text").evaluate_all("all => all.map((one) => getComputedStyle(one).fontSize)")
    assert set(sizes) == {"11px"}
    for name in ("Roofline", "Calculator"):
        page.get_by_role("tab", name=name).click()
        wait_until(lambda: page.evaluate("document.documentElement.scrollWidth") == width)
