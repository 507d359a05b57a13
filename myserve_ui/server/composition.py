"""Puts the app together from the settings: catalog, engines, service, then both doors over it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress

from fastapi import FastAPI
from gradio.routes import INTERNAL_ROUTES

from myserve_ui.api.door import add_api
from myserve_ui.errors import ModelLoadError
from myserve_ui.server.service_builder import Services, build_services
from myserve_ui.serving.chat_service import ChatService
from myserve_ui.settings import Settings
from myserve_ui.ui.blocks import mount_ui

logger = logging.getLogger(__name__)

UNUSED_BROWSER_PATHS = (
    "/gradio_api/proxy=",
    "/gradio_api/file=http",
    "/gradio_api/file/http",
    "/gradio_api/runs",
    "/gradio_api/stream/",
    "/gradio_api/custom_component/",
    "/gradio_api/vibe-",
    "/gradio_api/undo-vibe-",
    "/gradio_api/dev/",
    "/gradio_api/deep_link",
    "/monitoring",
)
"""Gradio's routes that the page does not use: they fetch from other sites, run code, or pass the queue by."""


def create_app(settings: Settings, services: Services | None = None) -> FastAPI:
    """The whole app; its life span loads the default model and, at the end, drains. `app.state.service` is the service.

    `services` are those of `settings` if the caller has made them before. The browser app is mounted last: at "/" it
    takes every path that is not taken before.
    """
    services = services or build_services(settings)
    service = services.chat
    app = FastAPI(lifespan=_life_span(service), openapi_url=None, redirect_slashes=False)
    app.state.service = service
    add_api(app, service, settings, comparisons=services.comparisons, is_browser_path=is_browser_path)
    return mount_ui(app, service, settings, comparisons=services.comparisons, benchmarks=services.benchmarks)


def is_browser_path(path: str) -> bool:
    """True for what the browser app serves; all else is the API's, to answer or to refuse."""
    if path.lower().startswith(UNUSED_BROWSER_PATHS):
        return False
    return path == "/" or path.split("/")[1] in INTERNAL_ROUTES


def _life_span(service: ChatService) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def life_span(_app: FastAPI) -> AsyncIterator[None]:
        loading = asyncio.create_task(_load_default(service))
        yield
        loading.cancel()
        with suppress(asyncio.CancelledError):
            await loading
        await service.shut_down()

    return life_span


async def _load_default(service: ChatService) -> None:
    """Load the default model while the doors are open already; /health says how far it is."""
    told = ("", 0)
    try:
        async for progress in service.load(""):
            percent = 10 * int(10 * (progress.fraction or 0.0))
            if told != (told := (progress.stage, percent)):
                logger.info("%s: %s%s", progress.model, progress.stage, f", {percent} %" if percent else "")
    except ModelLoadError as error:
        logger.debug("the default model was not loaded: %s", error)
