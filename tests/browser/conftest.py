"""The page over a scripted service, and visits to it."""

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser

from tests.browser.visits import Visit, visits
from tests.ui.live_server import page_app, serving
from tests.ui.scripted_service import ScriptedService


@pytest.fixture(scope="module")
def shared_service() -> ScriptedService:
    return ScriptedService()


@pytest.fixture(scope="module")
def url(shared_service: ScriptedService) -> Iterator[str]:
    with serving(lambda: page_app(shared_service)) as address:
        yield address


@pytest.fixture
def service(shared_service: ScriptedService) -> ScriptedService:
    """The script behind the page, as new; the server lives for the whole module."""
    shared_service.__init__()  # type: ignore[misc]
    return shared_service


@pytest.fixture
def visit(browser: Browser, url: str, service: ScriptedService) -> Iterator[Callable[..., Visit]]:
    """Opens the page in a browser profile of its own: visit(width=390, height=844, path="/")."""
    yield from visits(browser, url)
