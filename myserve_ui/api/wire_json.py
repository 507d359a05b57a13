"""JSON as it goes over the wire: plain ASCII, so that no line separator or half character can break a client."""

from __future__ import annotations

import json
from collections.abc import Mapping

from starlette.responses import Response

JsonObject = Mapping[str, object]


def encode_json(payload: JsonObject) -> bytes:
    """ASCII bytes of `payload`. Raises ValueError for NaN and infinities, which JSON cannot say."""
    return json.dumps(payload, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode("ascii")


def json_response(payload: JsonObject, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A response with `payload` as its JSON body."""
    return Response(encode_json(payload), status, dict(headers or {}), media_type="application/json")
