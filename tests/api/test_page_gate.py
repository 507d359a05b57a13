"""The page comes after the model; who asks for it before that waits, and the API does not."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
import pytest
from fastapi import FastAPI

from myserve_ui.errors import MyServeError, ShuttingDownError
from myserve_ui.server import composition
from myserve_ui.server.composition import create_app
from myserve_ui.server.page_gate import PageGate
from myserve_ui.serving.chat_service import ChatService
from myserve_ui.settings import Settings
from tests.faults.injection import until


def connect(app: FastAPI) -> httpx2.AsyncClient:
    transport = httpx2.ASGITransport(app)
    return httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=60.0)


class SlowPage:
    """A page that stands when it is told to, on an app with one route of its own."""

    def __init__(self, error: Exception | None = None) -> None:
        self.may_stand = threading.Event()
        self.times_mounted = self.times_settled = 0
        self._error = error
        self.app = FastAPI(openapi_url=None)
        self.app.get("/live")(self._alive)
        self.gate = PageGate(self.app, self._mount, how_far=lambda: "Half & half.", when_settled=self._count)
        self.app.router.routes.append(self.gate)

    def _mount(self, app: FastAPI) -> None:
        self.times_mounted += 1
        assert self.may_stand.wait(30)
        if self._error is not None:
            raise self._error
        app.get("/page")(self._alive)

    def _count(self) -> None:
        self.times_settled += 1

    async def _alive(self) -> str:
        return "alive"


async def test_visitors_wait_for_the_page_and_the_api_does_not() -> None:
    page = SlowPage()
    async with connect(page.app) as client:
        visits = [asyncio.create_task(client.get(path)) for path in ("/page", "/page", "/nowhere")]
        await until(lambda: page.times_mounted == 1)
        assert (await client.get("/live")).json() == "alive"
        assert not any(visit.done() for visit in visits)
        page.may_stand.set()
        assert [(await visit).status_code for visit in visits] == [200, 200, 404]
        assert (await client.get("/page")).json() == "alive"
    assert (page.times_mounted, page.times_settled) == (1, 1)
    await page.gate.close()


async def test_a_person_is_shown_how_far_it_is_until_the_page_stands() -> None:
    page = SlowPage()
    browser = {"accept": "text/html,*/*"}
    async with connect(page.app) as client:
        shown = await client.get("/", headers=browser)
        assert (shown.status_code, shown.headers["retry-after"]) == (503, "1")
        assert "<p>Half &amp; half.</p>" in shown.text
        assert 'http-equiv="refresh"' in shown.text
        assert page.times_mounted == 0
        page.may_stand.set()
        await page.gate.wait_open()
        assert (await client.get("/", headers=browser)).status_code == 404  # whatever is behind the gate says
    await page.gate.close()


async def test_a_page_that_cannot_be_built_leaves_the_api(caplog: pytest.LogCaptureFixture) -> None:
    page = SlowPage(OSError("no stylesheet"))
    page.may_stand.set()
    async with connect(page.app) as client:
        for _ in range(2):
            with pytest.raises(MyServeError, match="could not be built") as caught:
                await client.get("/page")
            assert caught.traceback[-1].path.name == "page_gate.py"
            assert caught.value.__cause__ is caught.value.__context__ is None  # else each visit would be kept
        assert (await client.get("/live")).status_code == 200
    assert (page.times_mounted, page.times_settled) == (1, 1)
    assert caplog.text.count("the page could not be built; the API goes on without it") == 1
    await page.gate.close()


async def test_a_server_that_ends_turns_visitors_away_and_does_not_wait_for_its_page() -> None:
    page = SlowPage()
    async with connect(page.app) as client:
        visit = asyncio.create_task(client.get("/page"))
        await until(lambda: page.times_mounted == 1)
        page.gate.turn_away()
        with pytest.raises(ShuttingDownError):
            await visit
        await page.gate.close()
        with pytest.raises(ShuttingDownError):
            await client.get("/page")
    page.may_stand.set()
    assert page.times_settled == 0


async def test_a_gate_that_nobody_came_to_closes() -> None:
    await SlowPage().gate.close()


@pytest.fixture
def may_load(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """The default model is loaded once this is set."""
    may_load = asyncio.Event()

    async def load(_service: ChatService, _model: str) -> AsyncIterator[None]:
        await may_load.wait()
        raise OSError("of a kind that nobody expects")
        yield

    monkeypatch.setattr(ChatService, "load", load)
    return may_load


@asynccontextmanager
async def starting() -> AsyncIterator[tuple[FastAPI, list[str]]]:
    """The whole app, and what it has said about its page."""
    said: list[str] = []
    app = create_app(Settings(force_echo=True), when_settled=lambda: said.append("settled"))
    async with app.router.lifespan_context(app):
        yield app, said


async def test_the_page_comes_after_the_model_whatever_became_of_it(
    may_load: asyncio.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[bool] = []
    begin = PageGate.begin
    monkeypatch.setattr(PageGate, "begin", lambda gate: (begun.append(may_load.is_set()), begin(gate))[1])
    async with starting() as (app, said), connect(app) as client:
        for _ in range(20):
            await asyncio.sleep(0.01)
        assert (await client.get("/live")).status_code == 200
        assert (begun, said) == ([], [])
        may_load.set()
        await until(lambda: begun)
        assert begun == [True]
        await app.state.page.wait_open()
        assert said == ["settled"]
        assert "myserve-ui" in (await client.get("/")).text


async def test_a_script_is_not_kept_waiting_for_the_model(may_load: asyncio.Event) -> None:
    async with starting() as (app, said), connect(app) as client:
        assert "myserve-ui" in (await client.get("/")).text
        assert said == ["settled"]
        assert not may_load.is_set()


async def test_a_long_load_does_not_keep_the_page_back(
    may_load: asyncio.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(composition, "PAGE_PATIENCE", 0.05)
    async with starting() as (_app, said):
        await until(lambda: said == ["settled"])
        assert not may_load.is_set()
