"""Puts the app together from the settings: catalog, engines, service, the API over it, and the page when it is time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress

from fastapi import FastAPI

from myserve_ui.api.door import add_api
from myserve_ui.errors import ModelLoadError, ShuttingDownError
from myserve_ui.server.browser import PageHeaders, is_browser_path
from myserve_ui.server.page_gate import PageGate
from myserve_ui.server.service_builder import Services, build_services
from myserve_ui.serving.chat_service import ChatService
from myserve_ui.settings import Settings
from myserve_ui.settings.environment import without_unusable_proxies

logger = logging.getLogger(__name__)

PAGE_PATIENCE = 10.0
"""Seconds that the page is kept back for the default model, unless a script asks for it before."""
BUILDING = "The page is being built."


def create_app(
    settings: Settings, services: Services | None = None, *, when_settled: Callable[[], None] = lambda: None
) -> FastAPI:
    """The whole app; its life span loads the default model and, at the end, drains.

    `app.state` has the `service` and the `page`, its gate. `services` are those of `settings` if the caller has made
    them before. The page comes after the model, or when a script asks for it; `when_settled` is called then.
    """
    services = services or build_services(settings)
    service = services.chat

    def mount_page(parent: FastAPI) -> None:
        with without_unusable_proxies():
            from myserve_ui.ui.interface import mount_ui  # late: it brings gradio

        mount_ui(parent, service, settings, comparisons=services.comparisons, benchmarks=services.benchmarks)

    app = FastAPI(openapi_url=None, redirect_slashes=False)
    gate = PageGate(app, mount_page, how_far=lambda: service.status().reason or BUILDING, when_settled=when_settled)
    app.router.lifespan_context = _life_span(service, gate)
    app.state.service, app.state.page = service, gate
    add_api(app, service, settings, comparisons=services.comparisons, is_browser_path=is_browser_path)
    app.add_middleware(PageHeaders)
    app.router.routes.append(gate)
    return app


def _life_span(service: ChatService, gate: PageGate) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def life_span(_app: FastAPI) -> AsyncIterator[None]:
        loading = asyncio.create_task(_load_default(service))
        opening = asyncio.create_task(_open_page(gate, loading))
        yield
        for task in (opening, loading):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        try:
            await gate.close()
        finally:
            await service.shut_down()

    return life_span


async def _open_page(gate: PageGate, loading: asyncio.Task[None]) -> None:
    """The model first, then the page, for each is held up by the other; the API is served meanwhile."""
    await asyncio.wait({loading}, timeout=PAGE_PATIENCE)
    gate.begin()


async def _load_default(service: ChatService) -> None:
    """Load the default model while the API is open already; /health says how far it is."""
    told = ("", 0)
    try:
        async for progress in service.load(""):
            percent = 10 * int(10 * (progress.fraction or 0.0))
            if told != (told := (progress.stage, percent)):
                logger.info("%s: %s%s", progress.model, progress.stage, f", {percent} %" if percent else "")
    except (ModelLoadError, ShuttingDownError) as error:
        logger.debug("the default model was not loaded: %s", error)
    except Exception:
        logger.exception("the default model was not loaded")
