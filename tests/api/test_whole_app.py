"""Both doors in one app: what needs a key, what a foreign page may do, what is switched off."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx2
import pytest
import pytest_asyncio
from fastapi import FastAPI
from gradio.routes import INTERNAL_ROUTES
from starlette.routing import BaseRoute, Mount

from myserve_ui.server.browser import FIRST_PARTS, is_browser_path
from myserve_ui.server.composition import create_app
from myserve_ui.settings import Settings

KEY = "open sesame"
OPEN = {
    "/live",
    "/health",
    "/healthz",
    "/",  # shows the login form
    "/login",
    "/login/",
    "/logout",
    "/assets/{path:path}",
    "/static/{path:path}",
    "/svelte/{path:path}",
    "/favicon.ico",
    "/theme.css",
    "/robots.txt",
    "/manifest.json",
    "/pwa_icon",
    "/pwa_icon/{size}",
    "/gradio_api/theme.css",
    "/gradio_api/app_id",
    "/gradio_api/app_id/",
    "/gradio_api/startup-events",
    "/gradio_api/token",  # null before login
    "/gradio_api/token/",
    "/gradio_api/user",
    "/gradio_api/user/",
    "/gradio_api/cancel",  # these three want the random name of a session or an event
    "/gradio_api/reset",
    "/gradio_api/reset/",
    "/gradio_api/heartbeat/{session_hash}",
}
"""What is reached without a key or a login: probes, the login itself, and what a browser needs to show it."""

HEARTBEAT = "/gradio_api/heartbeat/{session_hash}"
"""Never ends, so it is not asked."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def locked_app() -> FastAPI:
    return await with_page(create_app(Settings.model_validate({"force_echo": True, "api_key": KEY})))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def open_app() -> FastAPI:
    return await with_page(create_app(Settings(force_echo=True)))


async def with_page(app: FastAPI) -> FastAPI:
    await app.state.page.wait_open()
    return app


def connect(app: FastAPI, host: str = "127.0.0.1") -> httpx2.AsyncClient:
    transport = httpx2.ASGITransport(app, raise_app_exceptions=False)
    return httpx2.AsyncClient(transport=transport, base_url=f"http://{host}")


def walk(routes: list[BaseRoute], prefix: str = "") -> Iterator[tuple[str, str]]:
    """(method, path) of every route, those of mounted apps and included routers too."""
    for route in routes:
        if isinstance(route, Mount):
            yield from walk(route.routes, prefix + route.path)
        elif (included := getattr(route, "original_router", None)) is not None:
            yield from walk(included.routes, prefix)
        for method in getattr(route, "methods", None) or ():
            yield method, prefix + route.path


def test_the_paths_of_the_browser_are_those_of_the_installed_gradio() -> None:
    assert set(INTERNAL_ROUTES) == FIRST_PARTS


@pytest.mark.parametrize("path", ["*", "", "//", "/nope", "//login", "/GRADIO_API/x"])
def test_other_paths_are_the_apis(path: str) -> None:
    assert not is_browser_path(path)


async def test_every_route_of_both_doors_needs_a_key_or_a_login(locked_app: FastAPI) -> None:
    routes = set(walk(locked_app.routes))
    assert {("POST", "/v1/chat/completions"), ("POST", "/gradio_api/queue/join"), ("GET", "/config")} <= routes
    async with connect(locked_app) as client:
        for method, path in sorted(routes):
            if path == HEARTBEAT:
                continue
            response = await client.request(
                method, re.sub(r"{[^}]*}", "x", path), json={} if method == "POST" else None
            )
            closed = response.status_code == 401 or '"not_found"' in response.text
            assert closed or path in OPEN, (method, path, response.status_code)


async def test_the_api_opens_with_the_key_and_the_page_with_a_login(locked_app: FastAPI) -> None:
    async with connect(locked_app) as client:
        bearer = {"authorization": f"Bearer {KEY}"}
        assert (await client.get("/v1/models", headers=bearer)).status_code == 200
        assert (await client.get("/config", headers=bearer)).status_code == 401
        assert (await client.post("/login", data={"username": "me", "password": "wrong"})).status_code == 400
        assert (await client.post("/login", data={"username": "me", "password": KEY})).status_code == 200
        assert (await client.get("/config")).status_code == 200
        assert (await client.get("/v1/models")).status_code == 401


@pytest.mark.parametrize("path", ["/", "/config", "/gradio_api/info", "/v1/models", "/live", "/nope"])
@pytest.mark.parametrize("origin", ["https://evil.example", "null"])
async def test_a_foreign_page_gets_no_permission_at_either_door(open_app: FastAPI, path: str, origin: str) -> None:
    async with connect(open_app) as client:
        response = await client.get(path, headers={"origin": origin})
        preflight = {"origin": origin, "access-control-request-method": "POST"}
        asked = await client.options(path, headers=preflight)
    for headers in (response.headers, asked.headers):
        assert "access-control-allow-origin" not in headers
        assert "access-control-allow-credentials" not in headers


@pytest.mark.parametrize("path", ["/", "/config", "/gradio_api/info", "/v1/models"])
async def test_a_rebound_name_reaches_neither_door(open_app: FastAPI, path: str) -> None:
    async with connect(open_app, host="evil.example") as client:
        assert (await client.get(path)).status_code == 403


async def test_an_open_bind_reflects_no_origin_either() -> None:
    app = create_app(Settings(force_echo=True, host="0.0.0.0"))
    async with connect(app, host="my.example") as client:
        for path in ("/", "/config", "/v1/models"):
            response = await client.get(path, headers={"origin": "https://evil.example"})
            assert response.status_code == 200
            assert "access-control-allow-origin" not in response.headers


@pytest.mark.parametrize(
    "path",
    [
        "/gradio_api/proxy=https://example.org/",
        "/gradio_api/file=https://example.org/",
        "/gradio_api/file=HTTPS://example.org/",
        "/gradio_api/file/https://example.org/",
        "/gradio_api/runs",
        "/gradio_api/vibe-code",
        "/monitoring",
        "/monitoring/summary",
        "/docs",
        "/nope",
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_what_the_page_does_not_use_is_not_there(open_app: FastAPI, method: str, path: str) -> None:
    async with connect(open_app) as client:
        response = await client.request(method, path)
    assert response.status_code == 404
    assert response.json()["error"]["code"] == "not_found"


async def test_the_document_is_the_apis_own_and_none_of_the_page_s(open_app: FastAPI, locked_app: FastAPI) -> None:
    async with connect(open_app) as client:
        document = (await client.get("/openapi.json")).json()
        assert (await client.post("/openapi.json")).status_code == 405
    assert not [path for path in document["paths"] if is_browser_path(path)]
    async with connect(locked_app) as client:
        assert (await client.get("/openapi.json")).status_code == 401


@pytest.mark.parametrize("path", ["app.py", "requirements.txt", "/etc/passwd", ".env"])
async def test_no_file_of_this_machine_is_served(open_app: FastAPI, path: str) -> None:
    async with connect(open_app) as client:
        assert (await client.get(f"/gradio_api/file={path}")).status_code in (403, 404)
