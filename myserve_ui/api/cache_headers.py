"""The response cache as HTTP says it: who may use it, and whether it gave the answer."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from starlette.requests import Request

from myserve_ui.core.requests import ChatRequest, CompletionRequest
from myserve_ui.serving.stream_group import StreamGroup

CACHE_HEADER = "x-cache"
Asked = TypeVar("Asked", ChatRequest, CompletionRequest)


def with_cache(asked: Asked, request: Request) -> Asked:
    """`asked` with the caller as the cache's owner, unless `Cache-Control: no-store` passes the cache by."""
    directives = request.headers.get("cache-control", "").lower().split(",")
    if "no-store" in {directive.strip() for directive in directives}:
        return asked
    return replace(asked, cache_response=True, cache_owner=_owner(request))


def cache_header(group: StreamGroup) -> Mapping[str, str]:
    """HIT if all that is answered was at hand."""
    return {CACHE_HEADER: "HIT" if all(stream.from_cache for stream in group.streams) else "MISS"}


def _owner(request: Request) -> str:
    """A digest of the API key, so that the key itself is kept nowhere."""
    return hashlib.sha256(request.headers.get("authorization", "").encode()).hexdigest()
