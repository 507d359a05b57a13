"""No answer makes the page call another host: a server on another port listens, and hears nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.steps import OpenPage, send
from tests.ui.scripted_service import ScriptedService

PATIENCE = 20_000
"""Milliseconds; a page draws its diagrams after the text."""
pytestmark = pytest.mark.browser


@contextmanager
def listening() -> Iterator[tuple[str, list[str]]]:
    """(address of a server that is not the app's, paths it was asked for)."""
    asked: list[str] = []

    class Listener(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(b"<p>Here I am.</p>")

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Listener) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()
        thread.join()


@pytest.fixture
def stranger() -> Iterator[tuple[str, list[str]]]:
    with listening() as found:
        yield found


def answer(page: Page) -> Locator:
    return page.locator("#chat [data-testid=bot]").first


def finished(page: Page) -> None:
    expect(page.locator("#chat .thought-group", has_text="finished")).to_have_count(1, timeout=PATIENCE)


def markdown_images(address: str) -> str:
    return "\n\n".join(
        [
            f"![a cat]({address}/inline.png?q=secret) ![]({address}/bare.png)",
            f"![x](//{address.removeprefix('http://')}/protocol.png)",
            f"![named][r] ![r]\n\n[r]: {address}/reference.png",
            f"| a |\n|---|\n| ![x]({address}/table.png) |",
            f"[![x]({address}/inner.png)]({address}/outer)",
            f"$$\\includegraphics{{{address}/latex.png}}$$",
            f'```mermaid\ngraph TD\nA["<img src=\'{address}/label.png\'/>"] --> B["one<br/>two"]\n```',
            f"<img src={address}/tag.png> <video poster={address}/poster.png></video>",
        ]
    )


def fetching_tags(address: str) -> str:
    tags = [
        f"<img src={address}/img.png alt='a dog'>",
        f"<img srcset='{address}/srcset.png 2x'>",
        f"<svg><image href='{address}/svg.png'/></svg>",
        f"<div style='background:url({address}/style.png)'>x</div>",
        f"<video src={address}/video.mp4 poster={address}/poster.png></video><audio src={address}/audio.mp3></audio>",
        f"<iframe src={address}/frame></iframe><object data={address}/object></object><embed src={address}/embed>",
        f"<link rel=stylesheet href={address}/sheet.css><link rel=prefetch href={address}/prefetch>",
        f"<style>@import url({address}/import.css)</style><meta http-equiv=refresh content='0;url={address}/meta'>",
        f"<input type=image src={address}/input.png>",
    ]
    return "- ```\n  a\n  ```\n  " + "\n  ".join(tags)


def test_images_of_answers_questions_and_kept_chats_are_links(
    visit: OpenPage, service: ScriptedService, stranger: tuple[str, list[str]]
) -> None:
    address, asked = stranger
    service.longest_message = 100_000
    opened = visit()
    page = opened.page
    send(page, markdown_images(address))  # the script echoes it: user turn and answer are the same
    finished(page)
    links = answer(page).locator("a.image-link")
    expect(links.first).to_have_text("a cat")
    assert links.first.get_attribute("href") == f"{address}/inline.png?q=secret"
    assert links.first.get_attribute("rel") == "noopener noreferrer"
    expect(links.nth(1)).to_have_text(f"{address.removeprefix('http://')}/bare.png")
    expect(answer(page).locator(".mermaid svg")).to_be_visible()
    page.reload()
    expect(answer(page).locator("a.image-link").first).to_have_text("a cat")
    expect(page.locator("#chat [data-testid=user] a.image-link").first).to_have_text("a cat")
    assert page.locator(f"#chat img[src^='{address}']").count() == 0
    assert (asked, opened.strangers, opened.complaints) == ([], [], [])


def test_what_tags_of_an_answer_would_fetch_is_refused_and_shown_as_links(
    visit: OpenPage,
    service: ScriptedService,
    stranger: tuple[str, list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The last line, behind a server that lets tags through."""
    monkeypatch.setattr("myserve_ui.ui.chat.history.protect", lambda text: text)
    address, asked = stranger
    service.answer, service.pause = fetching_tags(address), 0.01
    page = visit().page
    send(page, "Hi")
    finished(page)
    expect(answer(page).locator("a.image-link", has_text="a dog")).to_have_attribute("href", f"{address}/img.png")
    expect(answer(page).locator("img, image, video, audio, iframe, object, embed, link, input")).to_have_count(0)
    page.reload()
    expect(answer(page).locator("a.image-link", has_text="a dog")).to_be_visible()
    assert asked == []


def test_the_policy_stops_whatever_a_script_of_the_page_would_fetch(
    visit: OpenPage, stranger: tuple[str, list[str]]
) -> None:
    """And the listener would have heard it: the same request is heard from a page without the policy."""
    address, asked = stranger
    fetch = """async (address) => {
        const image = new Image(); image.src = address + "/image";
        await new Promise((done) => { image.onload = image.onerror = done; });
        await fetch(address + "/fetch", { mode: "no-cors" }).catch(() => {});
        await new FontFace("f", `url(${address}/font)`).load().catch(() => {});
        const sheet = document.createElement("link"); sheet.rel = "stylesheet"; sheet.href = address + "/sheet";
        document.head.append(sheet);
        await new Promise((done) => { sheet.onload = sheet.onerror = done; });
        navigator.sendBeacon(address + "/beacon");
        const frame = document.createElement("iframe"); frame.src = address + "/frame"; document.body.append(frame);
        await new Promise((done) => setTimeout(done, 300));
    }"""
    page = visit().page
    page.evaluate(fetch, address)
    assert asked == []
    page.goto(address)  # a page of the stranger's own, which has no policy
    asked.clear()
    page.evaluate(fetch, address)
    assert {"/image", "/fetch", "/font", "/sheet", "/frame"} <= set(asked)


def test_a_link_leads_where_it_says(visit: OpenPage, service: ScriptedService) -> None:
    service.answer = "See [there](http://a.example/?a=1&b=2) and ![x](http://a.example/p.png?a=1&b=2)."
    page = visit().page
    send(page, "Hi")
    finished(page)
    links = answer(page).locator("a")
    assert links.nth(0).get_attribute("href") == "http://a.example/?a=1&b=2"
    assert links.nth(1).get_attribute("href") == "http://a.example/p.png?a=1&b=2"
