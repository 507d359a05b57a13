"""Puts the whole API door together: its routes, and the guards that every request passes in order."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware

from myserve_ui.api.auth import ApiKeyGuard, KeyRing
from myserve_ui.api.body_limit import BodyLimit
from myserve_ui.api.cache_headers import CACHE_HEADER
from myserve_ui.api.error_replies import ErrorBoundary
from myserve_ui.api.fallback import FallbackRoute
from myserve_ui.api.header_limit import HeaderLimit
from myserve_ui.api.host_guard import HostGuard
from myserve_ui.api.metrics import add_metrics_route
from myserve_ui.api.replies import FrameMaker
from myserve_ui.api.request_id import HEADER, RequestIdHeader
from myserve_ui.api.request_intake import RequestIntake
from myserve_ui.api.routes_evaluation import add_evaluation_routes
from myserve_ui.api.routes_generation import add_generation_routes
from myserve_ui.api.routes_plain import add_plain_routes
from myserve_ui.api.routes_status import add_status_routes
from myserve_ui.api.routes_tokens import add_token_routes
from myserve_ui.api.validation import RequestLimits
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
    intake = RequestIntake(RequestLimits(max_choices=settings.max_choices, max_prompts=settings.max_prompts))
    add_generation_routes(app.router, service, intake, FrameMaker(settings))
    add_plain_routes(app.router, service, intake)
    add_token_routes(app.router, service, intake)
    add_evaluation_routes(app.router, comparisons, intake)
    add_status_routes(app.router, service)
    add_metrics_route(app.router, service)
    app.router.routes.append(FallbackRoute(app.router.routes, is_exempt=is_browser_path))
    _add_guards(app, settings, is_browser_path)


def _add_guards(app: FastAPI, settings: Settings, is_browser_path: Callable[[str], bool]) -> None:
    # Starlette puts the middleware that is added last on the outside.
    max_bytes = int(settings.max_body_mib * 2**20)
    app.add_middleware(BodyLimit, max_bytes=max_bytes, is_exempt=is_browser_path)
    app.add_middleware(ApiKeyGuard, keys=KeyRing(settings.api_key), is_exempt=is_browser_path)
    app.add_middleware(HostGuard, bind_host=settings.host, allowed_hosts=settings.allowed_hosts)
    app.add_middleware(HeaderLimit)
    app.add_middleware(ErrorBoundary)
    app.add_middleware(
        CORSMiddleware,
        allow_origins=list(settings.allowed_origins),
        allow_methods=["GET", "POST"],
        allow_headers=["*"],
        allow_credentials=False,
        expose_headers=[HEADER, CACHE_HEADER, "retry-after"],
    )
    app.add_middleware(RequestIdHeader)
