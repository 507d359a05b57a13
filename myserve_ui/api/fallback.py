"""The last API route: answers every path that is nobody's with 404, and a known path's wrong method with 405."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from starlette.datastructures import URLPath
from starlette.routing import BaseRoute, Match, NoMatchFound
from starlette.types import Receive, Scope, Send

from myserve_ui.api.own_path import own_path
from myserve_ui.api.refusals import MethodNotAllowedError, PathNotFoundError


class FallbackRoute(BaseRoute):
    """Stands between the API's routes and the browser app mounted at "/", which would swallow both cases."""

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
