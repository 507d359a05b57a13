"""Typed factories that every test may ask for. Nothing here downloads, and nothing needs the network."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import TYPE_CHECKING

from myserve_ui.settings.environment import prepare_environment

prepare_environment()
os.environ["HF_HUB_OFFLINE"] = "1"

import pytest
import torch

from myserve_ui.core.requests import ChatRequest, Message
from myserve_ui.core.sampling_params import SamplingParams
from myserve_ui.models.catalog import Catalog, CatalogEntry, ModelSource, SourceKind
from myserve_ui.models.loaded_model import LoadedModel, echo_model
from myserve_ui.models.tiny import build_tiny_loaded_model
from myserve_ui.serving.chat_service import ChatService
from myserve_ui.serving.engine_builder import EngineLimits
from myserve_ui.serving.engine_pool import EnginePool
from myserve_ui.serving.request_stream import StreamLimits
from myserve_ui.serving.response_cache import ResponseCache

if TYPE_CHECKING:
    from playwright.sync_api import Browser

MakeService = Callable[..., Awaitable[ChatService]]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Browser tests come last: once playwright runs its event loop in this thread, asyncio tests cannot run theirs."""
    items.sort(key=lambda item: item.get_closest_marker("browser") is not None)


@pytest.fixture(scope="session")
def browser() -> Iterator["Browser"]:
    """The one browser of all tests; they are left out, with the reason, where there is none."""
    from tests.browser.visits import CHROMIUM, chromium

    if not CHROMIUM.exists():
        pytest.skip(f"browser tests need {CHROMIUM} (Debian's package chromium)")
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="session", autouse=True)
def few_threads() -> None:
    """Tiny products are quicker on one thread, and tests must not fight each other."""
    torch.set_num_threads(1)


def catalog_of(*names: str) -> Catalog:
    """A catalog of tiny models by family name ("llama", "gpt2", …) and "echo"."""
    return Catalog(CatalogEntry(name, ModelSource(SourceKind.FOLDER, name, ""), "full", created=1) for name in names)


def load_tiny(entry: CatalogEntry, _on_progress: object = None) -> LoadedModel:
    return echo_model() if entry.key == "echo" else build_tiny_loaded_model(entry.key)


@pytest.fixture
async def make_service() -> AsyncIterator[MakeService]:
    """Factory of a ChatService over tiny seeded models, its first model loaded; shut down after the test."""
    services: list[ChatService] = []

    async def make(
        *names: str,
        limits: EngineLimits | None = None,
        stream_limits: StreamLimits | None = None,
        load: Callable[..., LoadedModel] = load_tiny,
        cache: ResponseCache | None = None,
    ) -> ChatService:
        catalog = catalog_of(*(names or ("llama",)))
        pool = EnginePool(catalog, load, limits or EngineLimits(debug=True))
        service = ChatService(pool, limits=stream_limits, cache=cache, grace=0.0)
        services.append(service)
        async for _progress in service.load(""):
            pass
        return service

    yield make
    for service in services:
        await service.shut_down()


def chat_request(text: str = "Hello", *, model: str = "", **params: object) -> ChatRequest:
    """A request of one user message; greedy, 16 tokens, unless `params` say otherwise."""
    settings = {"temperature": 0.0, "max_tokens": 16, **params}
    return ChatRequest((Message("user", text),), model=model, params=SamplingParams(**settings))  # type: ignore[arg-type]
