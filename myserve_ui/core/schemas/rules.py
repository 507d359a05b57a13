"""A schema as the grammar library gets it, or why no grammar could enforce it word for word, or would cost too much.

Keywords are an allow list: one that is not on it would be ignored, and the answer would look checked without being so.
Numbers are written so that they are kept, and what is said to people is left out: a $ref cannot lead to what nobody
checked, and equal schemas share a grammar whatever they are called.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fractions import Fraction
from math import lcm
from urllib.parse import unquote

from myserve_ui.core.schemas.keywords import (
    ANNOTATIONS,
    KEYWORDS,
    MAX_SHOWN,
    RESERVED,
    SCHEMA_LISTS,
    SCHEMA_MAPS,
    SCHEMAS,
    SchemaRefused,
    shown,
)
from myserve_ui.core.schemas.numbers import divisor_of, hold_numbers
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
MAX_DATA_DEPTH = 64
"""Lists and objects inside each other in a const or enum."""
UNWRITABLE = re.compile(r"[\x00-\x07\x0b\x0e-\x1f\x7f]")
"""They need an escape by number, and those are forbidden where keys are named: see engine/grammars/text."""
TYPES = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})


@dataclass(slots=True)
class _Counts:
    """What a whole document adds up to."""

    properties: int = 0
    pattern_properties: int = 0
    divisors: set[Fraction] = field(default_factory=set)
    """Every multipleOf."""


def hold_schema(schema: dict[str, object], param: str) -> dict[str, object]:
    """`schema`, rewritten. Raises InvalidRequestError, naming the place, for what cannot be honoured."""
    try:
        return _hold_part("#", schema, 1, _Counts())
    except SchemaRefused as refused:
        raise InvalidRequestError(f"The schema cannot be honoured: {refused}", param=param) from None


def _hold(place: str, schema: object, depth: int, counts: _Counts) -> object:
    if isinstance(schema, bool):
        return schema
    if not isinstance(schema, dict):
        raise SchemaRefused(f"{shown(place)} must be a schema, an object or a boolean.")
    return _hold_part(place, schema, depth, counts)


def _hold_part(place: str, part: dict[str, object], depth: int, counts: _Counts) -> dict[str, object]:
    _check_part(place, part, depth, counts)
    own = {keyword: value for keyword, value in part.items() if not _is_note(keyword)}
    held = {key: _hold_inner(f"{place}/{key}", key, value, depth + 1, counts) for key, value in own.items()}
    return hold_numbers(place, held)


def _hold_inner(place: str, keyword: str, value: object, depth: int, counts: _Counts) -> object:
    """What stands under `keyword`: schemas, or data (enum, const, ...)."""
    if keyword in SCHEMA_MAPS:
        if not isinstance(value, dict):
            raise SchemaRefused(f"{shown(place)} must be an object.")
        return {name: _hold(f"{place}/{name[:MAX_SHOWN]}", inner, depth, counts) for name, inner in value.items()}
    if keyword in SCHEMA_LISTS or (keyword == "items" and isinstance(value, list)):
        if not isinstance(value, list):
            raise SchemaRefused(f"{shown(place)} must be a list.")
        return [_hold(f"{place}/{index}", inner, depth, counts) for index, inner in enumerate(value)]
    return _hold(place, value, depth, counts) if keyword in SCHEMAS else value


def _is_note(keyword: str) -> bool:
    return keyword in ANNOTATIONS or keyword.startswith("x-")


def _check_part(place: str, part: dict[str, object], depth: int, counts: _Counts) -> None:
    if depth > MAX_DEPTH:
        raise SchemaRefused(f"{shown(place)} is nested more than {MAX_DEPTH} deep; flatten it, or use $ref.")
    for keyword in part:
        if keyword == RESERVED or not (keyword in KEYWORDS or keyword.startswith("x-")):
            raise SchemaRefused(
                f"{keyword[:MAX_SHOWN]!r} at {shown(place)} cannot be enforced while the answer is written; "
                "leave it out and check it afterwards."
            )
    _check_reference(place, part)
    _check_kinds(place, part)
    _check_data(place, part)
    _check_repeated_keys(place, part)
    _count(place, part, counts)


def _check_reference(place: str, part: dict[str, object]) -> None:
    reference = part.get("$ref", "#")
    if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
        raise SchemaRefused(f"$ref at {shown(place)} must point into the schema itself, as in '#/$defs/item'.")
    if not _leads_to_a_schema(unquote(reference)):
        raise SchemaRefused(f"$ref at {shown(place)} must point to a schema, as in '#/$defs/item'.")


def _leads_to_a_schema(reference: str) -> bool:
    """Whether every step of `reference` goes to a schema inside a schema, and none into data, which is not checked."""
    steps = iter(reference.split("/")[1:])
    for step in steps:
        if step in SCHEMA_MAPS | SCHEMA_LISTS:
            if next(steps, None) is None:
                return False
        elif step not in SCHEMAS and not step.isdecimal():  # a number comes after the items of old drafts
            return False
    return True


def _check_kinds(place: str, part: dict[str, object]) -> None:
    """What the library would refuse in words of its own."""
    types = part.get("type", [])
    for name in types if isinstance(types, list) else [types]:
        if not isinstance(name, str) or name not in TYPES:
            raise SchemaRefused(f"type at {shown(place)} must be one of {', '.join(sorted(TYPES))}, or a list of them.")
    required = part.get("required", [])
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        raise SchemaRefused(f"required at {shown(place)} must be a list of names.")
    if not isinstance(part.get("enum", []), list):
        raise SchemaRefused(f"enum at {shown(place)} must be a list.")
    for keyword in ("pattern", "format", "$schema", "$id", "id"):
        if not isinstance(part.get(keyword, ""), str):
            raise SchemaRefused(f"{keyword} at {shown(place)} must be a string.")


def _check_data(place: str, part: dict[str, object]) -> None:
    """const and enum are no deeper than can be read."""
    pending = [(part[keyword], 1) for keyword in ("const", "enum") if keyword in part]
    while pending:
        data, depth = pending.pop()
        if depth > MAX_DATA_DEPTH:
            raise SchemaRefused(f"const or enum at {shown(place)} is nested more than {MAX_DATA_DEPTH} deep.")
        if isinstance(data, str) and (found := UNWRITABLE.search(data)):
            raise SchemaRefused(
                f"const or enum at {shown(place)} holds the control character U+{ord(found[0]):04X}; leave it out."
            )
        inner = data.values() if isinstance(data, dict) else data if isinstance(data, list) else ()
        pending += [(item, depth + 1) for item in inner]


def _check_repeated_keys(place: str, part: dict[str, object]) -> None:
    """A grammar does not remember which keys were written, so it cannot count different ones."""
    least, required = part.get("minProperties", 0), part.get("required", [])
    if isinstance(least, int) and isinstance(required, list) and least > max(1, len(required)):
        raise SchemaRefused(f"minProperties at {shown(place)} can be 1, or the number of required keys, not {least}.")


def _count(place: str, part: dict[str, object], counts: _Counts) -> None:
    counts.properties += _size(part, "properties")
    if counts.properties > MAX_PROPERTIES:
        raise SchemaRefused(f"it has more than {MAX_PROPERTIES} properties; ask for fewer.")
    counts.pattern_properties += _size(part, "patternProperties")
    if counts.pattern_properties > MAX_PATTERN_PROPERTIES:
        raise SchemaRefused(f"it has more than {MAX_PATTERN_PROPERTIES} patternProperties; ask for fewer.")
    if _size(part, "oneOf") > MAX_ALTERNATIVES_OF_ONE_OF:
        raise SchemaRefused(
            f"oneOf at {shown(place)} has more than {MAX_ALTERNATIVES_OF_ONE_OF} alternatives; use anyOf."
        )
    if (divisor := divisor_of(place, part)) is not None:
        _count_multiple(divisor, counts)


def _count_multiple(divisor: Fraction, counts: _Counts) -> None:
    counts.divisors.add(divisor)
    finest = lcm(*(divisor.denominator for divisor in counts.divisors))
    if lcm(*(int(divisor * finest) for divisor in counts.divisors)) > MAX_MULTIPLE:
        raise SchemaRefused(
            f"the common multiple of all multipleOf is above {MAX_MULTIPLE}; use smaller or fewer numbers."
        )


def _size(part: dict[str, object], keyword: str) -> int:
    value = part.get(keyword)
    return len(value) if isinstance(value, dict | list) else 0
