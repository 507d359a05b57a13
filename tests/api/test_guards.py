"""Keys, Host names, origins and request ids."""

from __future__ import annotations

from collections.abc import Callable

import httpx2
import pytest
from fastapi import FastAPI
from pydantic import SecretStr
from starlette.routing import Route

from myserve_ui.api.middleware import KeyRing, safe_request_id

AppFactory = Callable[..., FastAPI]
OPEN_PATHS = {"/live", "/health", "/healthz"}
KEYS = "first-key,zweiter-schlüssel"


def connect(app: FastAPI, **options: object) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app), **{"base_url": "http://127.0.0.1", **options})


async def test_every_route_but_the_probes_needs_a_key(app_factory: AppFactory) -> None:
    app = app_factory(api_key=KEYS)
    routes = [(route.path, method) for route in app.routes if isinstance(route, Route) for method in route.methods]
    assert ("/v1/chat/completions", "POST") in routes
    async with connect(app) as client:
        for path, method in [*routes, ("/nope", "GET"), ("/v1/nope", "POST"), ("/v1/models/a/b", "GET")]:
            status = (await client.request(method, path)).status_code
            assert (status == 401) == (path not in OPEN_PATHS), path


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Bearer wrong",
        "Basic first-key",
        "first-key",
        "Bearer first-key,zweiter",
        "Bearer first-keyy",
    ],
)
async def test_a_wrong_key_is_401_and_says_how(app_factory: AppFactory, header: str | None) -> None:
    async with connect(app_factory(api_key=KEYS)) as client:
        response = await client.get("/v1/models", headers={"authorization": header} if header is not None else {})
    assert response.status_code == 401
    assert response.headers["www-authenticate"] == "Bearer"
    assert response.json()["error"]["type"] == "authentication_error"
    assert response.json()["error"]["code"] == "invalid_api_key"


@pytest.mark.parametrize("key", [b"first-key", "zweiter-schlüssel".encode()])
async def test_each_key_opens_the_door(app_factory: AppFactory, key: bytes) -> None:
    async with connect(app_factory(api_key=KEYS)) as client:
        response = await client.get("/v1/models", headers={b"authorization": b"bearer " + key})
    assert response.status_code == 200


def test_an_empty_ring_is_an_open_door() -> None:
    assert not KeyRing([])
    assert KeyRing([SecretStr("first-key")])


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:7860", "localhost:1", "LOCALHOST", "[::1]:7860", "127.9.9.9"])
async def test_loopback_names_are_served(app_factory: AppFactory, host: str) -> None:
    async with connect(app_factory()) as client:
        assert (await client.get("/live", headers={"host": host})).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:7860", "127.0.0.1.evil.example", "localhost.evil", "", "192.168.0.7"]
)
@pytest.mark.parametrize("path", ["/live", "/v1/models", "/"])
async def test_other_names_are_refused_on_a_loopback_bind(app_factory: AppFactory, host: str, path: str) -> None:
    async with connect(app_factory()) as client:
        response = await client.get(path, headers={"host": host})
    assert response.status_code == 403
    assert response.json()["error"]["code"] == "host_not_allowed"


@pytest.mark.parametrize(
    ("settings", "status"),
    [
        ({"allowed_hosts": "other.example"}, 403),
        ({"allowed_hosts": "other.example, My.Example"}, 200),
        ({"allowed_hosts": "*"}, 200),
        ({"host": "0.0.0.0"}, 200),
        ({"host": "0.0.0.0", "allowed_hosts": "other.example"}, 403),
    ],
)
async def test_the_settings_widen_the_hosts(app_factory: AppFactory, settings: dict[str, str], status: int) -> None:
    async with connect(app_factory(**settings)) as client:
        assert (await client.get("/live", headers={"host": "my.example:80"})).status_code == status


async def test_a_foreign_origin_gets_no_permission(app_factory: AppFactory) -> None:
    async with connect(app_factory()) as client:
        for path in ("/v1/models", "/nope", "/live"):
            response = await client.get(path, headers={"origin": "https://evil.example"})
            assert "access-control-allow-origin" not in response.headers
        preflight = {"origin": "https://evil.example", "access-control-request-method": "POST"}
        response = await client.options("/v1/chat/completions", headers=preflight)
        assert response.status_code == 400
        assert "access-control-allow-origin" not in response.headers


async def test_an_allowed_origin_gets_permission_without_credentials(app_factory: AppFactory) -> None:
    origin = {"origin": "https://my.example"}
    async with connect(app_factory(allowed_origins="https://my.example", api_key=KEYS)) as client:
        refused = await client.get("/v1/models", headers=origin)
        assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (401, "https://my.example")
        assert "access-control-allow-credentials" not in refused.headers
        preflight = {"access-control-request-method": "POST", "access-control-request-headers": "authorization"}
        response = await client.options("/v1/chat/completions", headers={**origin, **preflight})
        assert response.status_code == 200


@pytest.mark.parametrize("sent", ["abc-123_x.Y", "a" * 128])
async def test_a_safe_request_id_comes_back(app_factory: AppFactory, sent: str) -> None:
    async with connect(app_factory()) as client:
        assert (await client.get("/nope", headers={"x-request-id": sent})).headers["x-request-id"] == sent


@pytest.mark.parametrize("sent", [None, "", "a" * 129, "a b", "a\nb", "ä", "a;b", "x" * 2**20])
def test_another_request_id_is_replaced(sent: str | None) -> None:
    made = safe_request_id(sent)
    assert made != sent
    assert made == safe_request_id(made)
