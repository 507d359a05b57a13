"""The way in of every POST route: read the body, refuse what cannot be honoured, give a typed body."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request

from myserve_ui.api.body import read_json_object
from myserve_ui.api.unbuilt_fields import HARMLESS_FIELDS, NEUTRAL_VALUES, UnknownFieldLog, refuse_unbuilt_fields
from myserve_ui.api.validation import Body, RequestLimits, validate


class RequestIntake:
    """Owned by the router; remembers which unknown fields were named in the log."""

    def __init__(self, limits: RequestLimits) -> None:
        self._limits = limits
        self._unknown_fields = UnknownFieldLog()

    async def read(self, request: Request, body_type: type[Body]) -> Body:
        """The body of `request` as a `body_type`. Raises InvalidRequestError that names the first wrong field."""
        fields = await read_json_object(request)
        refuse_unbuilt_fields(fields, built=body_type.model_fields.keys())
        body = validate(body_type, fields, self._limits)
        self._note_unknown(fields, body_type)
        return body

    def _note_unknown(self, fields: dict[str, Any], body_type: type[Body]) -> None:
        self._unknown_fields.note(
            fields.keys() - body_type.model_fields.keys() - NEUTRAL_VALUES.keys() - HARMLESS_FIELDS
        )
