"""Servers and clients for the page's tests."""

from collections.abc import Iterator

import pytest
from gradio_client import Client

from myserve_ui.serving.chat_service import ChatService
from myserve_ui.serving.engine_builder import EngineLimits
from myserve_ui.serving.engine_pool import EnginePool
from tests.conftest import catalog_of, load_tiny
from tests.ui.live_server import page_app, serving
from tests.ui.scripted_service import ScriptedService


@pytest.fixture(scope="module")
def echo_url() -> Iterator[str]:
    """The page over the real engine with echo weights, and a tiny llama as a second model."""

    def make_app() -> object:
        pool = EnginePool(catalog_of("echo", "llama"), load_tiny, EngineLimits(debug=True))
        return page_app(ChatService(pool, grace=0.0))

    with serving(make_app) as url:  # type: ignore[arg-type]
        yield url


@pytest.fixture
def service() -> ScriptedService:
    return ScriptedService()


@pytest.fixture
def scripted_url(service: ScriptedService) -> Iterator[str]:
    """The page over a scripted service, which the test may change while it runs."""
    with serving(lambda: page_app(service)) as url:
        yield url


@pytest.fixture
def client(scripted_url: str) -> Iterator[Client]:
    client = Client(scripted_url, verbose=False)
    yield client
    client.close()


@pytest.fixture
def echo_client(echo_url: str) -> Iterator[Client]:
    client = Client(echo_url, verbose=False)
    yield client
    client.close()
