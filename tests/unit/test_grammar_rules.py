"""A schema that could not be enforced, or costs too much, is refused before anything is built; the place is named."""

import pytest

from myserve_ui.core.schemas import rules as rules
from myserve_ui.core.schemas.structured_output import MAX_SCHEMA_BYTES, StructuredOutput
from myserve_ui.errors import InvalidRequestError


def refusal(schema: object) -> InvalidRequestError:
    with pytest.raises(InvalidRequestError) as refused:
        StructuredOutput.json_schema(schema, param="response_format.json_schema")
    assert refused.value.param == "response_format.json_schema"
    assert len(refused.value.message) < 400
    return refused.value


def nested(depth: int) -> dict:
    schema: dict = {"type": "string"}
    for _ in range(depth - 1):
        schema = {"type": "array", "items": schema}
    return schema


IGNORED_OTHERWISE = (
    "not if then else uniqueItems contains propertyNames dependentRequired dependentSchemas unevaluatedProperties "
    "unevaluatedItems $dynamicRef $anchor nullable requierd x-guidance"
)


@pytest.mark.parametrize("keyword", IGNORED_OTHERWISE.split())
def test_a_keyword_that_would_be_ignored_is_refused_with_its_place(keyword):
    error = refusal({"type": "object", "properties": {"a": {"anyOf": [{keyword: {}}]}}})
    assert f"{keyword!r} at #/properties/a/anyOf/0 cannot be enforced" in error.message


def test_keywords_are_free_as_names_and_inside_data():
    schema = {
        "type": "object",
        "properties": {"if": {"const": {"not": 1}}, "not": {"enum": [{"contains": 1}]}},
        "default": {"uniqueItems": True},
        "$defs": {"contains": True},
    }
    assert StructuredOutput.json_schema(schema).schema.startswith('{"type":"object"')


def test_properties_keep_their_order():
    texts = {StructuredOutput.json_schema({"properties": dict.fromkeys(order, True)}).schema for order in ("ab", "ba")}
    assert len(texts) == 2


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ([], "must be a JSON object"),
        (True, "must be a JSON object"),
        ({"properties": []}, "#/properties must be an object"),
        ({"anyOf": {}}, "#/anyOf must be a list"),
        ({"items": 3}, "#/items must be a schema"),
        ({"const": float("nan")}, "no word for"),
        ({"const": {1}}, "no word for"),
        ({"$ref": "https://example.org/s.json"}, "$ref at # must point into the schema itself"),
        ({"$ref": "#anchor"}, "$ref at # must point into the schema itself"),
        ({"$ref": 5}, "$ref at # must point into the schema itself"),
        ({"minProperties": 2}, "minProperties at # can be 1"),
        ({"multipleOf": 0}, "must be a number above 0"),
        ({"multipleOf": True}, "must be a number above 0"),
        ({"multipleOf": 999983}, f"above {rules.MAX_MULTIPLE}"),
        ({"allOf": [{"multipleOf": 997}, {"multipleOf": 991}]}, f"above {rules.MAX_MULTIPLE}"),
        ({"multipleOf": 1e-300, "items": {"multipleOf": 7}}, f"above {rules.MAX_MULTIPLE}"),
        ({"description": "x" * MAX_SCHEMA_BYTES}, f"may take {MAX_SCHEMA_BYTES}"),
        (nested(rules.MAX_DEPTH + 1), f"more than {rules.MAX_DEPTH} deep"),
        ({"properties": {f"p{n}": True for n in range(rules.MAX_PROPERTIES + 1)}}, "more than 1000 properties"),
        ({"patternProperties": {f"^{n}": True for n in range(rules.MAX_PATTERN_PROPERTIES + 1)}}, "patternProperties"),
        ({"oneOf": [True] * (rules.MAX_ALTERNATIVES_OF_ONE_OF + 1)}, "use anyOf"),
    ],
)
def test_a_refusal_names_the_bound_or_the_way_out(schema, words):
    assert words in refusal(schema).message


def test_a_schema_nested_beyond_reading_is_refused():
    assert "nested too deeply" in refusal(nested(100_000)).message


@pytest.mark.parametrize(
    "schema",
    [
        {},
        nested(rules.MAX_DEPTH),
        {"properties": {f"p{n}": True for n in range(rules.MAX_PROPERTIES)}},
        {"items": {"multipleOf": 0.01}, "multipleOf": 100},
        {"minProperties": 2, "required": ["a", "b"]},
    ],
)
def test_the_bound_itself_is_allowed(schema):
    assert StructuredOutput.json_schema(schema).schema
