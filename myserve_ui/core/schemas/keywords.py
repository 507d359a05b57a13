"""The keywords of a JSON schema that a grammar can keep, by what stands under them; and how a schema is refused."""

from __future__ import annotations

from collections.abc import Iterator

MAX_SHOWN = 60

SCHEMA_MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions"})
SCHEMA_LISTS = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
SCHEMAS = frozenset({"items", "additionalItems", "additionalProperties"})
COUNTS = frozenset({"maxItems", "maxLength", "maxProperties", "minItems", "minLength", "minProperties"})
BOUNDS = frozenset({"exclusiveMaximum", "exclusiveMinimum", "maximum", "minimum"})
ASSERTIONS = COUNTS | BOUNDS | {"$ref", "const", "enum", "format", "multipleOf", "pattern", "required", "type"}
IDENTIFIERS = frozenset({"$id", "$schema", "id"})
"""They ask nothing of the answer, but the grammar library reads them."""
ANNOTATIONS = frozenset(
    {
        "$comment",
        "contentEncoding",
        "contentMediaType",
        "default",
        "deprecated",
        "description",
        "discriminator",
        "example",
        "examples",
        "readOnly",
        "title",
        "writeOnly",
    }
)
"""They say something to people, and ask nothing of the answer. Keywords that begin with x- do so too."""
KEYWORDS = SCHEMA_MAPS | SCHEMA_LISTS | SCHEMAS | ASSERTIONS | IDENTIFIERS | ANNOTATIONS
RESERVED = "x-guidance"
"""The grammar library's own switches, which are not the client's to set."""


class SchemaRefused(Exception):
    """A reason, as a sentence that begins with or holds the place."""


def inner_schemas(place: str, part: dict[str, object]) -> Iterator[tuple[str, object]]:
    """The schemas directly inside `part`, each with its place. Data (enum, default, …) is no schema."""
    for keyword, value in part.items():
        here = f"{place}/{keyword}"
        if keyword in SCHEMA_MAPS:
            yield from _named(here, value)
        elif keyword in SCHEMA_LISTS or (keyword == "items" and isinstance(value, list)):
            yield from _listed(here, value)
        elif keyword in SCHEMAS:
            yield here, value


def shown(place: str) -> str:
    """A place as it is told."""
    return place if len(place) <= MAX_SHOWN else f"{place[:MAX_SHOWN]}…"


def _named(place: str, schemas: object) -> Iterator[tuple[str, object]]:
    if not isinstance(schemas, dict):
        raise SchemaRefused(f"{shown(place)} must be an object.")
    return ((f"{place}/{name[:MAX_SHOWN]}", inner) for name, inner in schemas.items())


def _listed(place: str, schemas: object) -> Iterator[tuple[str, object]]:
    if not isinstance(schemas, list):
        raise SchemaRefused(f"{shown(place)} must be a list.")
    return ((f"{place}/{index}", inner) for index, inner in enumerate(schemas))
