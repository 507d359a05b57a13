"""Refuses a JSON schema that a grammar could not enforce word for word, or that would cost too much.

Keywords are an allow list: one that is not on it would be ignored, and the answer would look checked without being so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from math import lcm

from myserve_ui.errors import InvalidRequestError

MAX_DEPTH = 32
"""Schemas inside each other; the reader of the grammar library gives up at 128, and people at about ten."""
MAX_PROPERTIES = 1000
"""Of all objects together; with this many optional ones, choosing a token's mask takes some milliseconds."""
MAX_PATTERN_PROPERTIES = 32
"""Each pair of patterns is compared."""
MAX_ALTERNATIVES_OF_ONE_OF = 200
"""Each pair of alternatives is compared."""
MAX_MULTIPLE = 10_000
"""Common multiple of every multipleOf: the grammar has a state for each remainder, a million would take 20 seconds."""
MAX_SHOWN = 60

SCHEMA_MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions"})
SCHEMA_LISTS = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
SCHEMAS = frozenset({"items", "additionalItems", "additionalProperties"})
ASSERTIONS = frozenset(
    {
        "$ref",
        "const",
        "enum",
        "exclusiveMaximum",
        "exclusiveMinimum",
        "format",
        "maxItems",
        "maxLength",
        "maxProperties",
        "maximum",
        "minItems",
        "minLength",
        "minProperties",
        "minimum",
        "multipleOf",
        "pattern",
        "required",
        "type",
    }
)
ANNOTATIONS = frozenset(
    {
        "$comment",
        "$id",
        "$schema",
        "contentEncoding",
        "contentMediaType",
        "default",
        "deprecated",
        "description",
        "discriminator",
        "example",
        "examples",
        "id",
        "readOnly",
        "title",
        "writeOnly",
    }
)
"""They say something to people, and ask nothing of the answer. Keywords that begin with x- do so too."""
KEYWORDS = SCHEMA_MAPS | SCHEMA_LISTS | SCHEMAS | ASSERTIONS | ANNOTATIONS
RESERVED = "x-guidance"
"""The grammar library's own switches, which are not the client's to set."""


@dataclass(slots=True)
class _Counts:
    """What a whole document adds up to."""

    properties: int = 0
    pattern_properties: int = 0
    divisors: set[Fraction] = field(default_factory=set)
    """Every multipleOf."""


def check_schema(schema: dict[str, object], param: str) -> None:
    """Raise InvalidRequestError, naming the place in `schema`, for the first thing that cannot be honoured."""
    counts = _Counts()
    pending: list[tuple[str, object, int]] = [("#", schema, 1)]
    try:
        while pending:
            place, part, depth = pending.pop()
            if isinstance(part, bool):
                continue
            _check_part(place, part, depth, counts)
            assert isinstance(part, dict)
            pending += [(name, inner, depth + 1) for name, inner in _inner_schemas(place, part)]
    except _Refused as refused:
        raise InvalidRequestError(f"The schema cannot be honoured: {refused}", param=param) from None


class _Refused(Exception):
    """A reason, as a sentence that begins with the place."""


def _check_part(place: str, part: object, depth: int, counts: _Counts) -> None:
    if not isinstance(part, dict):
        raise _Refused(f"{_shown(place)} must be a schema, an object or a boolean.")
    if depth > MAX_DEPTH:
        raise _Refused(f"{_shown(place)} is nested more than {MAX_DEPTH} deep; flatten it, or use $ref.")
    for keyword in part:
        if keyword == RESERVED or not (keyword in KEYWORDS or keyword.startswith("x-")):
            raise _Refused(
                f"{keyword[:MAX_SHOWN]!r} at {_shown(place)} cannot be enforced while the answer is written; "
                "leave it out and check it afterwards."
            )
    _check_reference(place, part)
    _check_repeated_keys(place, part)
    _count(place, part, counts)


def _inner_schemas(place: str, part: dict[str, object]) -> Iterator[tuple[str, object]]:
    """The schemas directly inside `part`, each with its place. Data (enum, default, …) is no schema."""
    for keyword, value in part.items():
        here = f"{place}/{keyword}"
        if keyword in SCHEMA_MAPS:
            yield from _named(here, value)
        elif keyword in SCHEMA_LISTS or (keyword == "items" and isinstance(value, list)):
            yield from _listed(here, value)
        elif keyword in SCHEMAS:
            yield here, value


def _named(place: str, schemas: object) -> Iterator[tuple[str, object]]:
    if not isinstance(schemas, dict):
        raise _Refused(f"{_shown(place)} must be an object.")
    return ((f"{place}/{name[:MAX_SHOWN]}", inner) for name, inner in schemas.items())


def _listed(place: str, schemas: object) -> Iterator[tuple[str, object]]:
    if not isinstance(schemas, list):
        raise _Refused(f"{_shown(place)} must be a list.")
    return ((f"{place}/{index}", inner) for index, inner in enumerate(schemas))


def _check_reference(place: str, part: dict[str, object]) -> None:
    reference = part.get("$ref", "#")
    if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
        raise _Refused(f"$ref at {_shown(place)} must point into the schema itself, as in '#/$defs/item'.")


def _check_repeated_keys(place: str, part: dict[str, object]) -> None:
    """A grammar does not remember which keys were written, so it cannot count different ones."""
    least, required = part.get("minProperties", 0), part.get("required", [])
    if isinstance(least, int) and isinstance(required, list) and least > max(1, len(required)):
        raise _Refused(f"minProperties at {_shown(place)} can be 1, or the number of required keys, not {least}.")


def _count(place: str, part: dict[str, object], counts: _Counts) -> None:
    counts.properties += _size(part, "properties")
    if counts.properties > MAX_PROPERTIES:
        raise _Refused(f"it has more than {MAX_PROPERTIES} properties; ask for fewer.")
    counts.pattern_properties += _size(part, "patternProperties")
    if counts.pattern_properties > MAX_PATTERN_PROPERTIES:
        raise _Refused(f"it has more than {MAX_PATTERN_PROPERTIES} patternProperties; ask for fewer.")
    if _size(part, "oneOf") > MAX_ALTERNATIVES_OF_ONE_OF:
        raise _Refused(f"oneOf at {_shown(place)} has more than {MAX_ALTERNATIVES_OF_ONE_OF} alternatives; use anyOf.")
    if "multipleOf" in part:
        _count_multiple(place, part["multipleOf"], counts)


def _count_multiple(place: str, divisor: object, counts: _Counts) -> None:
    if isinstance(divisor, bool) or not isinstance(divisor, int | float) or divisor <= 0:
        raise _Refused(f"multipleOf at {_shown(place)} must be a number above 0.")
    counts.divisors.add(Fraction(str(divisor)))
    finest = lcm(*(divisor.denominator for divisor in counts.divisors))
    if lcm(*(int(divisor * finest) for divisor in counts.divisors)) > MAX_MULTIPLE:
        raise _Refused(f"the common multiple of all multipleOf is above {MAX_MULTIPLE}; use smaller or fewer numbers.")


def _size(part: dict[str, object], keyword: str) -> int:
    value = part.get(keyword)
    return len(value) if isinstance(value, dict | list) else 0


def _shown(place: str) -> str:
    return place if len(place) <= MAX_SHOWN else f"{place[:MAX_SHOWN]}…"
