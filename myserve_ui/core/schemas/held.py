"""The schema as the grammar library gets it: numbers written so that they are kept, what is said to people left out.

Without notes, a $ref cannot lead to what nobody checked, and equal schemas share a grammar whatever they are called.
"""

from __future__ import annotations

from myserve_ui.core.schemas.keywords import ANNOTATIONS, SCHEMA_LISTS, SCHEMA_MAPS, SCHEMAS, SchemaRefused
from myserve_ui.core.schemas.numbers import hold_numbers
from myserve_ui.errors import InvalidRequestError


def hold_schema(schema: dict[str, object], param: str) -> dict[str, object]:
    """A checked `schema`, rewritten. Raises InvalidRequestError, naming the place, for a number that cannot be kept."""
    try:
        return _hold_part("#", schema)
    except SchemaRefused as refused:
        raise InvalidRequestError(f"The schema cannot be honoured: {refused}", param=param) from None


def _hold(place: str, schema: object) -> object:
    return _hold_part(place, schema) if isinstance(schema, dict) else schema


def _hold_part(place: str, schema: dict[str, object]) -> dict[str, object]:
    own = {keyword: value for keyword, value in schema.items() if not _is_note(keyword)}
    held = hold_numbers(place, own)
    return {keyword: _hold_inner(f"{place}/{keyword}", keyword, value) for keyword, value in held.items()}


def _hold_inner(place: str, keyword: str, value: object) -> object:
    if keyword in SCHEMA_MAPS and isinstance(value, dict):
        return {name: _hold(f"{place}/{name}", inner) for name, inner in value.items()}
    if keyword in SCHEMA_LISTS | SCHEMAS and isinstance(value, list):
        return [_hold(f"{place}/{index}", inner) for index, inner in enumerate(value)]
    return _hold(place, value) if keyword in SCHEMAS else value


def _is_note(keyword: str) -> bool:
    return keyword in ANNOTATIONS or keyword.startswith("x-")
