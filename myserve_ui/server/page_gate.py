"""The browser's way in: mounts the page when it is wanted; until it stands, people are shown why, and scripts wait."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, AsyncExitStack, nullcontext, suppress
from functools import cache

from fastapi import FastAPI
from starlette.datastructures import URLPath
from starlette.routing import BaseRoute, Match, NoMatchFound
from starlette.types import Receive, Scope, Send

from myserve_ui.errors import MyServeError, ShuttingDownError
from myserve_ui.server.starting_page import is_page_visit, starting_page

NOT_BUILT = "The page could not be built, the log says why; the API is there without it."
ENDING = "The app is shutting down and shows no page."

logger = logging.getLogger(__name__)


class PageGate(BaseRoute):
    """The last route of `app`, until `mount_page` has put the page behind it; from then on it lets everything pass.

    The page's library takes seconds to import. The API and the model, which want the same lock of Python, go first.
    """

    def __init__(
        self,
        app: FastAPI,
        mount_page: Callable[[FastAPI], None],
        *,
        how_far: Callable[[], str],
        when_settled: Callable[[], None],
    ) -> None:
        """`how_far` is what people are shown meanwhile; `when_settled` is called once, also if building has failed."""
        self._app = app
        self._mount_page = mount_page
        self._how_far = how_far
        self._when_settled = when_settled
        self._page: asyncio.Task[None] | None = None
        self._is_open = self._is_ending = False
        self._settled = asyncio.Event()
        self._closing = asyncio.Event()

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Every HTTP path that comes this far, as long as there is nothing behind."""
        return (Match.NONE, {}) if self._is_open or scope["type"] != "http" else (Match.FULL, {})

    def url_path_for(self, name: str, /, **path_params: object) -> URLPath:
        raise NoMatchFound(name, path_params)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Wait for the page, then look for the path again. Raises as `wait_open`."""
        if is_page_visit(scope) and not self._settled.is_set():
            await starting_page(self._how_far())(scope, receive, send)
            return
        await self.wait_open()
        await self._app.router(scope, receive, send)

    def begin(self) -> None:
        """Start to build the page, unless that has been done."""
        if self._page is None and not self._is_ending:
            self._page = asyncio.create_task(self._build_and_hold())

    async def wait_open(self) -> None:
        """Return when the page stands. Raises MyServeError if it could not be built, ShuttingDownError at the end."""
        self.begin()
        await self._settled.wait()
        if not self._is_open:
            raise ShuttingDownError(ENDING) if self._is_ending else MyServeError(NOT_BUILT)

    def turn_away(self) -> None:
        """Let nobody wait any longer: the server is about to end."""
        self._is_ending = True
        self._settled.set()

    async def close(self) -> None:
        """End what the page runs beside its requests."""
        self.turn_away()
        self._closing.set()
        if self._page is None:
            return
        if not self._is_open:
            self._page.cancel()
        with suppress(asyncio.CancelledError):
            await self._page

    async def _build_and_hold(self) -> None:
        async with AsyncExitStack() as page_life:
            try:
                await page_life.enter_async_context(await self._mount())
                self._is_open = True
            except Exception:
                logger.exception("the page could not be built; the API goes on without it")
            self._settled.set()
            self._when_settled()
            if self._is_open:
                await self._closing.wait()

    async def _mount(self) -> AbstractAsyncContextManager[object]:
        """The page's life span. Gradio wraps it around the app's, which has begun already and is put aside for that."""
        router = self._app.router
        own, router.lifespan_context = router.lifespan_context, lambda _app: nullcontext()
        try:
            await asyncio.get_running_loop().run_in_executor(_drawing_thread(), lambda: asyncio.run(self._draw()))
            return router.lifespan_context(self._app)
        finally:
            router.lifespan_context = own

    async def _draw(self) -> None:
        """Has a loop around it, for Gradio makes one where it finds none, and never closes it."""
        self._mount_page(self._app)


@cache
def _drawing_thread() -> ThreadPoolExecutor:
    """One for all apps of a process: Gradio keeps the page that it is drawing in a global."""
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="page")
