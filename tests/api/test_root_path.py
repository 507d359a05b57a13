"""Behind a proxy's prefix the app answers under it, stripped or not, told by a setting or by a trusted proxy."""

from __future__ import annotations

import httpx2
import pytest
from fastapi import FastAPI, Request

from myserve_ui.api.middleware import own_path
from myserve_ui.server.browser import HEADERS, PageHeaders
from myserve_ui.server.proxies import behind_proxies


def make_app() -> FastAPI:
    app = FastAPI()
    app.add_middleware(PageHeaders)

    @app.get("/")
    @app.get("/v1/models")
    async def where(request: Request) -> dict[str, str]:
        return {"own": own_path(request.scope), "base": str(request.base_url)}

    return app


async def get(path: str, *, root_path: str = "", client: str = "127.0.0.1", **headers: str) -> httpx2.Response:
    app = behind_proxies(make_app(), root_path, trusted="127.0.0.1")
    transport = httpx2.ASGITransport(app=app, client=(client, 1))
    async with httpx2.AsyncClient(transport=transport, base_url="http://a.example") as client_of_app:
        return await client_of_app.get(path, headers={name.replace("_", "-"): text for name, text in headers.items()})


@pytest.mark.parametrize("path", ["/llm/v1/models", "/v1/models"])
async def test_a_setting_names_the_prefix_whether_or_not_the_proxy_strips_it(path: str) -> None:
    found = await get(path, root_path="/llm")
    assert found.json() == {"own": "/v1/models", "base": "http://a.example/llm/"}


@pytest.mark.parametrize("path", ["/llm/v1/models", "/v1/models"])
async def test_a_trusted_proxy_tells_its_prefix(path: str) -> None:
    found = await get(path, x_forwarded_prefix="/llm/")
    assert found.json() == {"own": "/v1/models", "base": "http://a.example/llm/"}


async def test_nobody_else_does() -> None:
    assert (await get("/v1/models", client="10.0.0.9", x_forwarded_prefix="/llm")).json()["base"] == "http://a.example/"


@pytest.mark.parametrize("prefix", ["//evil.example", "/a b", "llm", "/" + 300 * "x", "/<b>"])
async def test_a_prefix_that_is_no_path_is_none(prefix: str) -> None:
    assert (await get("/v1/models", x_forwarded_prefix=prefix)).json()["base"] == "http://a.example/"


async def test_the_prefix_alone_leads_to_the_page() -> None:
    found = await get("/llm", root_path="/llm")
    assert (found.status_code, found.headers["location"]) == (307, "/llm/")


async def test_every_answer_says_what_a_browser_keeps_to() -> None:
    assert (await get("/")).headers.items() >= HEADERS.items()
