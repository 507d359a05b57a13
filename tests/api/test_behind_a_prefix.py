"""Behind a real proxy under /llm, which strips its prefix or leaves it: page, scripts and API answer under it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from urllib.parse import urljoin, urlsplit

import httpx2
import openai
import pytest
from gradio_client import Client
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

from myserve_ui.server.composition import create_app
from myserve_ui.server.proxies import behind_proxies
from myserve_ui.settings import Settings
from tests.ui.live_server import serving

PREFIX = "/llm"
HOP_BY_HOP = {"connection", "content-length", "keep-alive", "transfer-encoding"}
PATIENCE = 60.0
ASKED_FOR = re.compile(r'(?:src|href)="([^"#]+\.(?:js|css|png|svg|ico|woff2?|json))"')


def make_app(root_path: str) -> object:
    return behind_proxies(create_app(Settings(force_echo=True, root_path=root_path)), root_path, trusted="127.0.0.1")


def make_proxy(upstream: str, *, strips: bool, tells: bool) -> Starlette:
    """What nginx does with `proxy_pass`: Host goes on, the path with or without the prefix."""

    @asynccontextmanager
    async def life_span(app: Starlette) -> AsyncIterator[None]:
        async with httpx2.AsyncClient(base_url=upstream, timeout=PATIENCE, trust_env=False) as app.state.client:
            yield

    async def forward(request: Request) -> StreamingResponse:
        path = request.url.path.removeprefix(PREFIX) if strips else request.url.path
        headers = [(name, value) for name, value in request.headers.items() if name not in HOP_BY_HOP]
        headers += [("x-forwarded-prefix", PREFIX)] if tells else []
        url = f"{path}?{request.url.query}" if request.url.query else path
        asked = request.app.state.client.build_request(
            request.method, url, headers=headers, content=await request.body()
        )
        answer = await request.app.state.client.send(asked, stream=True)
        kept = {name: value for name, value in answer.headers.items() if name not in HOP_BY_HOP}
        return StreamingResponse(answer.aiter_raw(), answer.status_code, kept)

    routes = [Route(PREFIX + "/{rest:path}", forward, methods=["GET", "POST", "HEAD", "DELETE"])]
    return Starlette(routes=routes, lifespan=life_span)


@pytest.fixture(scope="module")
def set_app() -> Iterator[str]:
    with serving(lambda: make_app(PREFIX)) as url:  # type: ignore[arg-type, return-value]
        httpx2.get(f"{url}{PREFIX}/config", timeout=PATIENCE, trust_env=False)  # a script waits for the page
        yield url


@pytest.fixture(scope="module", params=["strips", "leaves"])
def address(request: pytest.FixtureRequest, set_app: str) -> Iterator[str]:
    """The app as a visitor sees it: the proxy's address and the prefix."""
    with serving(lambda: make_proxy(set_app, strips=request.param == "strips", tells=False)) as url:  # type: ignore[arg-type, return-value]
        yield url + PREFIX


def test_the_page_and_all_that_it_asks_for_are_under_the_prefix(address: str) -> None:
    with httpx2.Client(timeout=PATIENCE, trust_env=False, follow_redirects=True) as visitor:
        page = visitor.get(f"{address}/", headers={"accept": "text/html"})
        assert page.status_code == 200
        wanted = {urljoin(f"{address}/", found) for found in ASKED_FOR.findall(page.text)}
        own = {url for url in wanted if url.startswith(address.removesuffix(PREFIX))}
        own.discard(urljoin(address, "/manifest.json"))  # gradio's template names it from the root, prefix or not
        assert own
        for url in sorted(own):
            assert urlsplit(url).path.startswith(f"{PREFIX}/"), url
            assert visitor.get(url).status_code == 200, url
        assert visitor.get(f"{address}/config").json()["root"] == address
        assert visitor.get(f"{address}/health").json()["status"] == "ok"
        assert visitor.get(address.removesuffix(PREFIX) + "/v1/models").status_code == 404  # the proxy's own


def test_a_script_of_gradio_predicts(address: str) -> None:
    client = Client(f"{address}/", verbose=False)
    try:
        assert client.predict(message="Hello there", max_tokens=5, temperature=0, api_name="/chat")
    finally:
        client.close()


def test_a_client_of_openai_chats_and_streams(address: str) -> None:
    with openai.OpenAI(api_key="none", base_url=f"{address}/v1", max_retries=0) as client:
        assert [model.id for model in client.models.list()] == ["echo"]
        chunks = client.chat.completions.create(
            model="echo", messages=[{"role": "user", "content": "Hello"}], max_tokens=5, stream=True
        )
        assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
