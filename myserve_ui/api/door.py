"""Puts the whole API door together: its routes, and what every request passes in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from fastapi import APIRouter, FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.datastructures import URLPath
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import BaseRoute, Match, NoMatchFound
from starlette.types import Receive, Scope, Send

from myserve_ui.api.bodies import JsonRoute
from myserve_ui.api.chat.routes import add_chat_route
from myserve_ui.api.completions.routes import add_completion_route, add_plain_routes
from myserve_ui.api.errors import MethodNotAllowedError, PathNotFoundError, answer_wrong_fields
from myserve_ui.api.evaluation import add_evaluation_routes
from myserve_ui.api.metrics import add_metrics_route
from myserve_ui.api.middleware import (
    REQUEST_ID,
    ApiKeyGuard,
    BodyLimit,
    ErrorBoundary,
    Guard,
    Guarded,
    HostGuard,
    KeyRing,
    RequestIdHeader,
    header_guard,
    own_path,
)
from myserve_ui.api.openapi import REFUSED, add_document_route
from myserve_ui.api.render import Responder
from myserve_ui.api.responses import CACHE_HEADER
from myserve_ui.api.sampling import RequestLimits
from myserve_ui.api.status import add_status_routes
from myserve_ui.api.tokens import add_token_routes
from myserve_ui.evaluation.comparisons import Comparisons
from myserve_ui.settings import Settings

if TYPE_CHECKING:
    from myserve_ui.serving.chat_service import ChatService


def add_api(
    app: FastAPI,
    service: ChatService,
    settings: Settings,
    *,
    comparisons: Comparisons,
    is_browser_path: Callable[[str], bool],
) -> None:
    """Add the API's routes and guards to `app`.

    `is_browser_path` says which paths belong to the browser app: it has its own login, body limit and 404.
    """
    routes = _routes(service, settings, comparisons)
    app.router.routes += [*routes, FallbackRoute(routes, is_exempt=is_browser_path)]
    app.add_exception_handler(RequestValidationError, answer_wrong_fields)
    _add_middleware(app, settings, is_browser_path)


def _routes(service: ChatService, settings: Settings, comparisons: Comparisons) -> list[BaseRoute]:
    router = APIRouter(
        route_class=JsonRoute,
        responses={"default": {"description": REFUSED}},
        generate_unique_id_function=lambda route: route.name,
    )
    limits = RequestLimits(max_choices=settings.max_choices, max_prompts=settings.max_prompts)
    responder = Responder(settings)
    add_chat_route(router, service, responder, limits)
    add_completion_route(router, service, responder, limits)
    add_plain_routes(router, service)
    add_token_routes(router, service)
    add_evaluation_routes(router, comparisons)
    add_status_routes(router, service)
    add_metrics_route(router, service)
    add_document_route(router, needs_key=bool(settings.api_key))
    return router.routes


def _add_middleware(app: FastAPI, settings: Settings, is_browser_path: Callable[[str], bool]) -> None:
    # Starlette puts the middleware that is added last on the outside.
    app.add_middleware(BodyLimit, max_bytes=int(settings.max_body_mib * 2**20), is_exempt=is_browser_path)
    guards: list[Guard] = [
        header_guard,
        HostGuard(bind_host=settings.host, allowed_hosts=settings.allowed_hosts),
        ApiKeyGuard(KeyRing(settings.api_key), is_exempt=is_browser_path),
    ]
    app.add_middleware(Guarded, guards=guards)
    app.add_middleware(ErrorBoundary)
    app.add_middleware(
        CORSMiddleware,
        allow_origins=list(settings.allowed_origins),
        allow_methods=["GET", "POST"],
        allow_headers=["*"],
        allow_credentials=False,
        expose_headers=[REQUEST_ID, CACHE_HEADER, "retry-after"],
    )
    app.add_middleware(RequestIdHeader)


class FallbackRoute(BaseRoute):
    """Answers every path that is nobody's with 404, and a known path's wrong method with 405.

    Stands between the API's routes and the browser app mounted at "/", which would swallow both cases.
    """

    def __init__(self, routes: Iterable[BaseRoute], *, is_exempt: Callable[[str], bool]) -> None:
        self._routes = list(routes)
        self._is_exempt = is_exempt

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Any HTTP path but those that `is_exempt` leaves to others."""
        if scope["type"] != "http" or self._is_exempt(own_path(scope)):
            return Match.NONE, {}
        return Match.FULL, {}

    def url_path_for(self, name: str, /, **path_params: object) -> URLPath:
        raise NoMatchFound(name, path_params)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Always refuses."""
        method, path = scope["method"], own_path(scope)[:100]
        if allow := self._methods_of(scope):
            raise MethodNotAllowedError(f"{path} does not take {method}; it takes {allow}.", allow=allow)
        raise PathNotFoundError(f"There is no {method} {path} here; chat is POST /v1/chat/completions.")

    def _methods_of(self, scope: Scope) -> str:
        partial = [route for route in self._routes if route.matches(scope)[0] is Match.PARTIAL]
        return ", ".join(sorted({method for route in partial for method in getattr(route, "methods", ())}))
