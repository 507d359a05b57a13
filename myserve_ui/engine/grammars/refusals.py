"""Says in plain words why the grammar library did not take a schema; its own words are for those who write Rust."""

from __future__ import annotations

import re

from myserve_ui.errors import InvalidRequestError

CANNOT = "The schema cannot be honoured: "
MAX_NAME = 60

REASONS: tuple[tuple[str, str], ...] = (
    ("oneOf constraints", "the alternatives of a oneOf may overlap; use anyOf."),
    ("Unknown format: (?P<name>.*)", "the format {name!r} is not known; use a pattern, or leave it out."),
    ("circular references with sibling", "a $ref that leads back to itself stands beside other keywords; drop them."),
    ("Pointer .* does not exist|Reference segment|Definition not found", "a $ref points to nothing in the schema."),
    ("Invalid URI|not present in a registry|Unknown specification", "its $schema, $id or a $ref is no address known."),
    ("Word(Ascii|Unicode)", "a pattern has a border of a word (\\b, \\B); write it without."),
    ("look-?around", "a pattern looks ahead or behind; write it without."),
    ("backreference", "a pattern refers back to a group; write it without."),
    ("regex parse error", "a pattern is no regular expression that can be read."),
    ("not disjoint", "two patternProperties may match the same name; keep them apart."),
    ("Unable to determine if (regex is empty|patternProperties)", "a pattern is too complex here; simplify it."),
    ("min/maxProperties only", "minProperties and maxProperties need every key of properties to be required."),
    (
        "range .* does not contain a multiple",
        "its bounds leave no multiple of its multipleOf that floating point can tell; use an enum.",
    ),
    ("Unsatisfiable|always empty|no answer fits", "no answer fits it: what it asks for contradicts itself."),
    ("hex escape|surrogate", "a text in it holds half a character (a lone surrogate)."),
    ("too large|too complex|limit|fuel|exceed|stack level|too big", "it is too complex; make it smaller."),
)
"""What the library's words hold, and what is said instead."""
GAVE_UP = "the grammar library gave up"
OTHERWISE = "it cannot be made into a grammar; simplify it."


def refusal(error: str) -> InvalidRequestError:
    """The sentence for the library's `error`, which quotes the whole grammar."""
    said = error.partition("failed to compile JSON schema: ")[2] or error
    said = said.partition("\n   1 | ")[0]
    for pattern, reason in REASONS:
        if found := re.search(pattern, said, re.IGNORECASE):
            names = {key: value[:MAX_NAME] for key, value in found.groupdict().items()}
            return InvalidRequestError(CANNOT + reason.format(**names))
    return InvalidRequestError(CANNOT + OTHERWISE)
