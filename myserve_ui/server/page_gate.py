"""The browser's way in: mounts the page when it is wanted, and lets visitors wait until it stands."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from fastapi import FastAPI
from starlette.datastructures import URLPath
from starlette.routing import BaseRoute, Match, NoMatchFound
from starlette.types import Receive, Scope, Send

logger = logging.getLogger(__name__)


class PageGate(BaseRoute):
    """The last route of `app`, until `mount_page` has put the page behind it; from then on it lets everything pass.

    The page's library takes seconds to import. The API and the model, which want the same lock of Python, go first.
    """

    def __init__(self, app: FastAPI, mount_page: Callable[[FastAPI], None], *, when_open: Callable[[], None]) -> None:
        self._app = app
        self._mount_page = mount_page
        self._when_open = when_open
        self._keeping: asyncio.Task[None] | None = None
        self._settled = asyncio.Event()
        self._closing = asyncio.Event()
        self._failure: Exception | None = None

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Every HTTP path that comes this far, as long as there is nothing behind."""
        is_passed = scope["type"] != "http" or (self._settled.is_set() and self._failure is None)
        return (Match.NONE, {}) if is_passed else (Match.FULL, {})

    def url_path_for(self, name: str, /, **path_params: object) -> URLPath:
        raise NoMatchFound(name, path_params)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Wait for the page, then look for the path again. Raises what kept the page from being mounted."""
        await self.wait_open()
        await self._app.router(scope, receive, send)

    def begin(self) -> None:
        """Start to mount the page, unless that has been done; it is imported and drawn on a thread of its own."""
        if self._keeping is None:
            self._keeping = asyncio.create_task(self._keep())

    async def wait_open(self) -> None:
        """Return when the page stands. Raises what kept it from being mounted."""
        self.begin()
        await self._settled.wait()
        if self._failure is not None:
            raise self._failure

    async def close(self) -> None:
        """End what the page runs beside its requests."""
        if self._keeping is None:
            return
        self._closing.set()
        if not self._settled.is_set():
            self._keeping.cancel()
        with suppress(asyncio.CancelledError):
            await self._keeping

    async def _keep(self) -> None:
        """Mount the page and hold its life span open; the page wraps its own around the one it finds."""
        router = self._app.router
        router.lifespan_context = _nothing  # the app's has begun long ago
        try:
            # A loop around it, for Gradio makes one where it finds none, and never closes it.
            await asyncio.to_thread(lambda: asyncio.run(self._mount()))
            async with router.lifespan_context(self._app):
                self._settled.set()
                self._when_open()
                await self._closing.wait()
        except Exception as error:
            logger.exception("the page could not be built; the API goes on without it")
            self._failure = error
            self._settled.set()
            self._when_open()

    async def _mount(self) -> None:
        self._mount_page(self._app)


@asynccontextmanager
async def _nothing(_app: FastAPI) -> AsyncIterator[None]:
    yield
