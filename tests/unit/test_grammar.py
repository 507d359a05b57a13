"""An answer under a grammar is JSON that its schema allows, ends where it is complete, and nowhere else."""

import json
import threading

import pytest
import torch

from myserve_ui.core.schemas.structured_output import StructuredOutput
from myserve_ui.engine.grammars.compiler import GrammarCompiler
from myserve_ui.engine.grammars.masks import GrammarMasks, fill_masks, forbid_tokens
from myserve_ui.errors import InvalidRequestError
from myserve_ui.models.tokenizers.byte_tokenizer import EOS_TOKEN_ID, ByteTokenizer
from tests.unit.grammar_walks import allowed_ids, byte_compiler, compile_schema, random_answer, takes

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 8},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "mood": {"enum": ["glad", "grim", None]},
        "tags": {"type": "array", "items": {"type": "string", "pattern": "^[ab]{1,3}$"}, "maxItems": 3},
    },
    "required": ["name", "age", "mood", "tags"],
    "additionalProperties": False,
}
TREE = {
    "$defs": {
        "node": {
            "type": "object",
            "properties": {"c": {"type": "array", "items": {"$ref": "#/$defs/node"}, "maxItems": 2}},
            "required": ["c"],
            "additionalProperties": False,
        }
    },
    "$ref": "#/$defs/node",
}


def spell(document: object) -> list[int]:
    return list(json.dumps(document, ensure_ascii=False).encode())


@pytest.mark.parametrize("seed", range(8))
def test_a_random_answer_is_what_the_schema_says(seed):
    person = json.loads(random_answer(compile_schema(PERSON), seed))
    assert list(person) == ["name", "age", "mood", "tags"]
    assert 1 <= len(person["name"]) <= 8
    assert type(person["age"]) is int and 0 <= person["age"] <= 150
    assert person["mood"] in ("glad", "grim", None)
    assert len(person["tags"]) <= 3
    assert all(1 <= len(tag) <= 3 and set(tag) <= {"a", "b"} for tag in person["tags"])


@pytest.mark.parametrize("seed", range(4))
def test_a_random_answer_of_any_object_is_an_object(seed):
    grammar = byte_compiler().compile(StructuredOutput.json_object())
    text = random_answer(grammar, seed, max_tokens=400)
    assert text.startswith("{")
    assert not text.endswith("}") or isinstance(json.loads(text), dict)


def test_an_end_is_allowed_only_when_the_json_is_complete():
    matcher = compile_schema({"const": {"a": 1}}).start()
    for byte in b'{"a":1}':
        assert EOS_TOKEN_ID not in allowed_ids(matcher)
        assert not matcher.is_finished
        matcher.accept(byte)
    assert matcher.is_finished
    assert allowed_ids(matcher) == [EOS_TOKEN_ID]


def test_a_number_may_end_or_go_on():
    matcher = compile_schema({"type": "integer"}).start()
    matcher.accept(ord("4"))
    assert {EOS_TOKEN_ID, ord("2")} <= set(allowed_ids(matcher))
    assert not matcher.is_finished
    matcher.accept(EOS_TOKEN_ID)
    assert matcher.is_finished


def test_an_enum_leaves_one_way_where_only_one_word_is_left():
    matcher = compile_schema({"enum": ["green", "grey"]}).start()
    for byte in b'"gre':
        assert allowed_ids(matcher) == [byte]
        matcher.accept(byte)
    assert allowed_ids(matcher) == [ord("e"), ord("y")]


def test_every_end_token_of_the_model_ends_an_answer():
    compiler = GrammarCompiler(ByteTokenizer(300).token_bytes, end_token_ids=frozenset({257, 299}))
    matcher = compiler.compile(StructuredOutput.json_schema({"const": 1})).start()
    matcher.accept(ord("1"))
    assert allowed_ids(matcher) == [257, 299]


def test_a_way_that_leads_nowhere_is_a_failure_and_no_early_end():
    without_a = [b"" if word == b"A" else word for word in ByteTokenizer(300).token_bytes()]
    compiler = GrammarCompiler(lambda: without_a, end_token_ids=frozenset({EOS_TOKEN_ID}))
    matcher = compiler.compile(StructuredOutput.json_schema({"const": "A"})).start()
    matcher.accept(ord('"'))
    assert allowed_ids(matcher) == []
    assert matcher.failure is not None
    assert not matcher.is_finished


@pytest.mark.parametrize("text", ["Grüße", "日本", "🦉", "a\tb", 'quote " and \\'])
def test_text_of_any_script_can_be_written(text):
    grammar = compile_schema({"type": "string"})
    assert takes(grammar, spell(text))
    assert not takes(grammar, spell(text)[:-1])


def test_broken_utf_8_cannot_be_written():
    assert not takes(compile_schema({"type": "string"}), b'"\xc3"')


def test_blank_lines_come_to_an_end():
    grammar = compile_schema({"const": [1]})
    assert takes(grammar, b"[\n  1\n]")
    assert not takes(grammar, b"[\n\n1]")
    assert not takes(grammar, b"[" + b" " * 40 + b"1]")


FEATURES = {
    "enum": ({"enum": ["a", 3, None]}, ["a", 3, None], ["b", 4]),
    "const": ({"const": {"a": [1]}}, [{"a": [1]}], [{"a": [2]}]),
    "types": ({"type": ["integer", "null"]}, [1, None], ["x", 1.5]),
    "pattern": ({"type": "string", "pattern": "^[A-Z]{2}[0-9]+$"}, ["AB12"], ["A12", "xAB1"]),
    "pattern anywhere": ({"type": "string", "pattern": "foo"}, ["xfooy"], ["bar"]),
    "format": ({"type": "string", "format": "date"}, ["2024-02-28"], ["2024-13-45", "hello"]),
    "length": ({"type": "string", "minLength": 2, "maxLength": 3}, ["ab", "äöü"], ["a", "abcd"]),
    "length without type": ({"maxLength": 2}, ["ab", 12345], ["abc"]),
    "range": ({"type": "integer", "minimum": 5, "maximum": 12}, [5, 12], [4, 13]),
    "open range": ({"type": "number", "exclusiveMinimum": 0, "maximum": 1.5}, [0.1, 1.5], [0, 1.6]),
    "multipleOf": ({"type": "number", "multipleOf": 0.25}, [1.25, 2], [1.3]),
    "items": ({"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2}, [[1]], [[], [1, 2, 3]]),
    "prefixItems": ({"type": "array", "prefixItems": [{"const": 1}], "items": False}, [[1]], [[2], [1, 1]]),
    "required": ({"type": "object", "required": ["q"]}, [{"q": 1}], [{}]),
    "no more": ({"properties": {"a": True}, "additionalProperties": False, "type": "object"}, [{"a": 1}], [{"b": 1}]),
    "others": ({"type": "object", "additionalProperties": {"type": "integer"}}, [{"a": 1}], [{"a": "x"}]),
    "patternProperties": (
        {"type": "object", "patternProperties": {"^x_": {"type": "integer"}}, "additionalProperties": False},
        [{"x_a": 1}],
        [{"x_a": "s"}, {"y": 1}],
    ),
    "maxProperties": ({"type": "object", "maxProperties": 1}, [{"a": 1}], [{"a": 1, "b": 2}]),
    "anyOf": ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, [1, "a"], [None]),
    "oneOf": (
        {
            "oneOf": [
                {"type": "object", "properties": {"k": {"const": k}, k: True}, "required": ["k", k]} for k in "ab"
            ],
            "discriminator": {"propertyName": "k"},
        },
        [{"k": "a", "a": 1}, {"k": "b", "b": 1}],
        [{"k": "a"}, {"k": "c"}],
    ),
    "allOf": (
        {
            "allOf": [
                {"type": "object", "properties": {"x": {"minimum": 10, "type": "integer"}}, "required": ["x"]},
                {"type": "object", "properties": {"y": {"type": "string"}}, "required": ["y"]},
            ]
        },
        [{"x": 10, "y": "a"}],
        [{"x": 1, "y": "a"}, {"x": 10}],
    ),
    "$ref and more": ({"$defs": {"i": {"type": "integer"}}, "$ref": "#/$defs/i", "minimum": 5}, [6], [4]),
    "recursion": (TREE, [{"c": [{"c": []}]}], [{"c": [1]}, {"c": [{}]}]),
    "notes": ({"type": "integer", "title": "t", "x-order": 1, "deprecated": True, "examples": [{"if": 1}]}, [1], ["a"]),
}


@pytest.mark.parametrize(("schema", "good", "bad"), FEATURES.values(), ids=list(FEATURES))
def test_what_a_schema_asks_for_is_enforced(schema, good, bad):
    grammar = compile_schema(schema)
    assert [document for document in good if not takes(grammar, spell(document))] == []
    assert [document for document in bad if takes(grammar, spell(document))] == []


CANNOT = {
    "no such type": {"type": "strnig"},
    "nothing fits": {"type": "integer", "minimum": 5, "maximum": 4},
    "no end to it": {"$ref": "#"},
    "points nowhere": {"$ref": "#/$defs/nope"},
    "unknown format": {"type": "string", "format": "iri-reference"},
    "lookahead": {"type": "string", "pattern": "^(?!foo)[a-z]+$"},
    "broken pattern": {"type": "string", "pattern": "("},
    "overlapping oneOf": {"oneOf": [{"type": "integer"}, {"type": "number"}]},
    "lone surrogate": {"const": "\ud800"},
    "too much": {"allOf": [{"anyOf": [{"const": n} for n in range(100)]}] * 4},
}


@pytest.mark.parametrize("schema", CANNOT.values(), ids=list(CANNOT))
def test_what_cannot_be_enforced_is_refused(schema):
    with pytest.raises(InvalidRequestError) as refused:
        byte_compiler().compile(StructuredOutput.json_schema(schema, param="tools"), param="tools")
    assert refused.value.param == "tools"
    assert refused.value.message.startswith("The schema cannot be honoured: ")
    assert "llguidance" not in refused.value.message
    assert len(refused.value.message) < 400


@pytest.mark.parametrize(
    ("pattern", "words"),
    [(r"\bfoo\b", "a border of a word"), ("(?=a)b", "looks ahead"), (r"(a)\1", "refers back"), ("(", "no regular")],
)
def test_a_pattern_that_cannot_be_kept_to_is_named(pattern, words):
    with pytest.raises(InvalidRequestError, match=words):
        compile_schema({"type": "string", "pattern": pattern})


def test_a_pattern_with_many_states_costs_no_more_than_what_is_written():
    grammar = compile_schema({"type": "string", "pattern": "^(a|b)*a(a|b){200}$"})
    assert takes(grammar, b'"' + b"a" * 201 + b'"')
    assert not takes(grammar, b'"' + b"b" * 201 + b'"')


def test_a_thousand_optional_properties_are_served():
    schema = {"type": "object", "properties": {f"p{n}": {"const": n} for n in range(1000)}}
    assert takes(compile_schema(schema), b'{"p7":7,"p999":999}')


def test_a_model_without_end_token_is_refused():
    compiler = GrammarCompiler(ByteTokenizer().token_bytes, end_token_ids=frozenset())
    with pytest.raises(InvalidRequestError, match="no end token"):
        compiler.compile(StructuredOutput.json_object())


def test_a_forbidden_token_ends_the_sequence_with_a_reason():
    grammar = compile_schema(PERSON)
    matcher = grammar.start()
    matcher.accept(ord("x"))
    assert matcher.failure is not None
    assert not matcher.is_finished
    assert takes(grammar, spell({"name": "a", "age": 1, "mood": None, "tags": []}))  # others are not harmed


def test_masks_change_their_own_rows_alone():
    compiler = byte_compiler()
    matchers = [compiler.compile(StructuredOutput.json_schema({"const": word})).start() for word in (1, "a")]
    logits = torch.randn(4, 300)
    masked = logits.clone()
    forbid_tokens(masked, GrammarMasks([3, 1], fill_masks(matchers)))
    assert torch.equal(masked[[0, 2]], logits[[0, 2]])
    assert masked[3].argmax() == ord("1") and masked[3, ord("1")] == logits[3, ord("1")]
    assert masked[1].argmax() == ord('"') and masked[1].isfinite().sum() == 1


def test_equal_shapes_share_a_grammar_and_the_oldest_is_forgotten():
    compiler = byte_compiler(max_cached=2)
    one, two, three = (StructuredOutput.json_schema({"const": n}) for n in range(3))
    first, second = compiler.compile(one), compiler.compile(two)
    assert compiler.compile(StructuredOutput.json_schema({"const": 0})) is first
    compiler.compile(three)
    assert compiler.compile(one) is first
    assert compiler.compile(two) is not second


def test_a_grammar_whose_matcher_failed_is_made_anew():
    compiler = byte_compiler()
    shape = StructuredOutput.json_object()
    spent = compiler.compile(shape)
    spent.start().accept(ord("x"))
    assert compiler.compile(shape) is not spent


def test_many_threads_may_compile_and_fill_masks_at_once():
    compiler, answers = byte_compiler(), {}

    def work(number: int) -> None:
        grammar = compiler.compile(StructuredOutput.json_schema({"const": number % 3}))
        answers[number] = random_answer(grammar, number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {number: str(number % 3) for number in range(12)}


def test_functions_keep_their_own_definitions():
    def call(name: str, kind: str) -> dict:
        arguments = {"properties": {"x": {"$ref": "#/$defs/x"}}, "required": ["x"], "$defs": {"x": {"type": kind}}}
        properties = {"name": {"const": name}, "arguments": {"type": "object", **arguments, "$id": f"urn:{name}"}}
        return {"type": "object", "properties": properties, "required": ["name", "arguments"]}

    grammar = compile_schema({"anyOf": [call("f", "integer"), call("g", "string")]})
    assert takes(grammar, b'{"name": "f", "arguments": {"x": 1}}')
    assert takes(grammar, b'{"name": "g", "arguments": {"x": "1"}}')
    assert not takes(grammar, b'{"name": "g", "arguments": {"x": 1}}')
