"""A number of a schema comes out as it was written, or the schema is refused in plain words."""

import json
import random
from fractions import Fraction

import pytest

from myserve_ui.core.schemas.library_numbers import read_divisor, read_float, write_divisor, write_float
from myserve_ui.core.schemas.structured_output import StructuredOutput
from myserve_ui.errors import InvalidRequestError
from tests.unit.grammar_walks import compile_schema, random_answer, takes

INTEGER, NUMBER = {"type": "integer"}, {"type": "number"}

BEYOND = [
    {"const": -(2**63)},
    {"const": 2**63 - 1},
    {"const": 10**400},
    {"const": {"a": [{"b": -(2**63)}]}},
    {"enum": [1, [2**64]]},
    {"enum": [1234567890123456789]},
    {"const": 2**53 + 1},
    {"const": 1e300},
    {"const": 1234567890123456789.0},
    INTEGER | {"minimum": -1e20, "maximum": -1e19},
    INTEGER | {"minimum": 2**53 + 1, "maximum": 2**53 + 1},
    INTEGER | {"minimum": 10**30},
    INTEGER | {"maximum": -(2**63)},
    NUMBER | {"exclusiveMinimum": 1e300},
    NUMBER | {"exclusiveMaximum": -(2**60)},
    NUMBER | {"minimum": 1e-200},
    NUMBER | {"multipleOf": 1e-15},
    NUMBER | {"multipleOf": 5e-324},
    NUMBER | {"multipleOf": 0.1, "minimum": 1e12},
    {"type": "string", "maxLength": 2**32},
    {"type": "array", "minItems": 2**64},
    {"type": "array", "maxItems": 1.5},
    {"type": "object", "maxProperties": -1},
    {"type": "string", "minLength": "2"},
    NUMBER | {"minimum": "2"},
    NUMBER | {"minimum": 5, "maximum": 4},
    NUMBER | {"exclusiveMinimum": 4, "maximum": 4},
    NUMBER | {"multipleOf": 0.5, "minimum": 0.6, "maximum": 0.9},
    {"const": 0.3, "multipleOf": 0.2},
    {"properties": {"a": {"items": [{"const": -(2**63)}]}}},
    {"$defs": {"a": {"anyOf": [INTEGER | {"minimum": -(2**63)}]}}, "$ref": "#/$defs/a"},
]


@pytest.mark.parametrize("schema", BEYOND, ids=lambda schema: str(schema)[:60])
def test_a_number_that_cannot_be_kept_is_refused_in_plain_words(schema):
    with pytest.raises(InvalidRequestError) as refused:
        StructuredOutput.json_schema(schema, param="tools")
    assert refused.value.param == "tools"
    assert refused.value.message.startswith("The schema cannot be honoured: ")
    assert "Some(" not in refused.value.message
    assert len(refused.value.message) < 300


@pytest.mark.parametrize("reference", ["#/const", "#/enum/0", "#/x-a", "#/properties", "#/%63onst"])
def test_a_reference_leads_to_nothing_that_was_not_checked(reference):
    hidden = {"const": -(2**63)}
    schema = {"$ref": reference, "x-a": hidden, "default": hidden, "properties": {"a": True}}
    with pytest.raises(InvalidRequestError):
        StructuredOutput.json_schema(schema)


KEPT = {
    "const": ({"const": 2**53}, ["9007199254740992"], ["9007199254740993"]),
    "large const": ({"const": -(2**62)}, [str(-(2**62))], [str(-(2**62) + 1)]),
    "1.0 for an integer": (INTEGER | {"const": 1.0}, ["1"], ["1.0", "2"]),
    "-0": ({"const": -0.0}, ["0"], ["1"]),
    "float": ({"const": 0.1 + 0.2}, ["0.30000000000000004"], ["0.3", "0.30000000000000005"]),
    "enum": ({"enum": [0.1, 1e18]}, ["0.1", "1000000000000000000"], ["1000000000000000001"]),
    "safe integers": (
        INTEGER | {"minimum": -(2**53) + 1, "maximum": 2**53 - 1},
        [str(2**53 - 1), str(1 - 2**53), "0"],
        [str(2**53), str(-(2**53))],
    ),
    "above 0, below a half": (NUMBER | {"exclusiveMinimum": 0, "maximum": 0.5}, ["0.25", "0.001"], ["0", "0.0", "-0"]),
    "above 3, below 3.5": (NUMBER | {"exclusiveMinimum": 3, "maximum": 3.5}, ["3.2"], ["3", "3.0"]),
    "below 0": (NUMBER | {"minimum": -0.5, "exclusiveMaximum": 0}, ["-0.2"], ["0", "-0", "-0.0"]),
    "both open": (NUMBER | {"exclusiveMinimum": 0, "exclusiveMaximum": 1}, ["0.9", "0.1"], ["0", "1", "1.0"]),
    "draft 4": (NUMBER | {"minimum": 2, "exclusiveMinimum": True}, ["2.5", "3"], ["2", "2.0"]),
    "tenths": (NUMBER | {"multipleOf": 0.1, "minimum": 0.3, "maximum": 0.3}, ["0.3"], ["0.2", "0.4", "0"]),
    "sevenths": (NUMBER | {"multipleOf": 0.07, "maximum": 0.21}, ["0.07", "0.14", "0.21", "-0.07"], ["0.06", "0.28"]),
    "whole tenths": (INTEGER | {"multipleOf": 0.1, "minimum": 7, "maximum": 7}, ["7"], ["6", "8"]),
    "multiples of an enum": ({"enum": [0.1, 0.2, 0.3, "a"], "multipleOf": 0.1}, ["0.3", '"a"'], ["0.4"]),
    "other types stay": ({"minimum": 5, "maximum": 4}, ['"a"', "null"], ["4", "5", "4.5"]),
    "whole counts": ({"type": "string", "maxLength": 2.0, "minLength": 1.0}, ['"ab"'], ['""', '"abc"']),
}


@pytest.mark.parametrize(("schema", "good", "bad"), KEPT.values(), ids=list(KEPT))
def test_a_number_is_kept_exactly(schema, good, bad):
    grammar = compile_schema(schema)
    assert [text for text in good if not takes(grammar, text.encode())] == []
    assert [text for text in bad if takes(grammar, text.encode())] == []


@pytest.mark.parametrize("seed", range(20))
def test_a_float_comes_out_as_itself_or_is_refused(seed):
    draw = random.Random(seed)
    number = draw.choice([1, -1]) * draw.random() * 10.0 ** draw.randint(-30, 10)
    if write_float(number) is None:
        with pytest.raises(InvalidRequestError, match="more digits than can be kept"):
            StructuredOutput.json_schema({"const": number})
    else:
        assert json.loads(random_answer(compile_schema({"const": number}), seed)) == number


def test_the_library_misreads_what_is_written_for_it():
    assert read_float(9.38595867742349e-14) != 9.38595867742349e-14
    assert read_divisor(0.07) != Fraction(7, 100)
    assert read_divisor(write_divisor(Fraction(7, 100))) == Fraction(7, 100)


def test_equal_schemas_share_a_form_whatever_they_are_called():
    plain = StructuredOutput.json_schema({"type": "string"})
    assert StructuredOutput.json_schema({"title": "t", "type": "string", "x-b": 10**400}) == plain


KEYED = {"type": "object", "properties": {"a": INTEGER}}
SPELLINGS = {
    "properties": KEYED,
    "required": {"type": "object", "required": ["a"], "properties": {"a": INTEGER}},
    "additionalProperties": {"type": "object", "properties": {"a": INTEGER}, "additionalProperties": True},
    "patternProperties": {"type": "object", "patternProperties": {"^a": INTEGER}},
    "allOf": {"allOf": [{"type": "object"}, KEYED]},
}


@pytest.mark.parametrize("schema", SPELLINGS.values(), ids=list(SPELLINGS))
@pytest.mark.parametrize("key", [r"\u0061", r"\U0061"])
def test_an_escaped_key_does_not_pass_for_another(schema, key):
    grammar = compile_schema(schema)
    assert not takes(grammar, f'{{"{key}":"x"}}'.encode())
    assert not takes(grammar, f'{{"a":1,"{key}":"x"}}'.encode())
    assert takes(grammar, b'{"a":1,"b":"x"}')


def test_an_escaped_key_does_not_pass_in_a_nested_object():
    grammar = compile_schema({"type": "array", "items": {"anyOf": [KEYED, {"type": "null"}]}})
    assert not takes(grammar, rb'[{"\u0061":"x"}]')
    assert takes(grammar, '[{"a":1,"é":"\\n"}]'.encode())
    assert not takes(compile_schema({"const": {"a": 1}}), rb'{"\u0061":1}')
