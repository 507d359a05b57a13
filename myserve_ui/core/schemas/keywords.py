"""The keywords of a JSON schema that a grammar can keep, by what stands under them; and how a schema is refused."""

from __future__ import annotations

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


def shown(place: str) -> str:
    """A place as it is told."""
    return place if len(place) <= MAX_SHOWN else f"{place[:MAX_SHOWN]}…"
