"""An answer of calls is calls that fit their functions; an answer with calls is text, and calls that fit."""

import pytest

from myserve_ui.core.schemas.structured_output import StructuredOutput
from myserve_ui.core.tool_call_output import CallableFunction, ToolCallOutput
from myserve_ui.core.tools import ToolFormat
from myserve_ui.engine.grammars.compiler import CompiledGrammar
from myserve_ui.tools.hermes import HermesFormat
from myserve_ui.tools.llama3 import Llama3Format
from tests.unit.grammar_walks import byte_compiler, takes

HERMES, LLAMA = HermesFormat(), Llama3Format()
COUNT = StructuredOutput.json_schema(
    {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
)


def compile_calls(call_format: ToolFormat, max_calls: int, *, required: bool) -> CompiledGrammar:
    functions = (CallableFunction("count", COUNT), CallableFunction("any", StructuredOutput.json_object()))
    return byte_compiler().compile(ToolCallOutput(call_format, functions, max_calls, is_call_required=required))


def call(call_format: ToolFormat, name: str, arguments: str) -> str:
    return call_format.write_opening(name) + arguments + call_format.closing


FITTING = call(HERMES, "count", '{"n": 3}')
OTHER = call(HERMES, "any", '{"x": [1]}')
WRONG = call(HERMES, "count", '{"n": "3"}')
UNKNOWN = call(HERMES, "other", '{"n": 3}')


def test_a_call_is_spelled_as_models_learn_it():
    assert FITTING == '<tool_call>\n{"name": "count", "arguments": {"n": 3}}\n</tool_call>'
    assert call(LLAMA, "count", '{"n": 3}') == '{"name": "count", "parameters": {"n": 3}}'


@pytest.mark.parametrize(
    ("answer", "one", "several", "text_or_one", "text_with_calls"),
    [
        (FITTING, True, True, True, True),
        (OTHER, True, True, True, True),
        (WRONG, False, False, False, False),
        (UNKNOWN, False, False, False, False),
        (f"{FITTING}\n{OTHER}", False, True, False, True),
        (FITTING + FITTING, False, False, False, True),
        (f"Well.\n{FITTING}", False, False, True, True),
        (f"{FITTING} Well.", False, False, False, True),
        ("Well, <tools> and </tool_call>.", False, False, True, True),
        ("", False, False, True, True),
        ("<tool_call>", False, False, False, False),
    ],
)
def test_calls_in_tags(answer, one, several, text_or_one, text_with_calls):
    token_ids = list(answer.encode())
    assert takes(compile_calls(HERMES, 1, required=True), token_ids) is one
    assert takes(compile_calls(HERMES, 2, required=True), token_ids) is several
    assert takes(compile_calls(HERMES, 1, required=False), token_ids) is text_or_one
    assert takes(compile_calls(HERMES, 2, required=False), token_ids) is text_with_calls


def test_calls_that_must_be_are_not_more_than_the_most():
    grammar = compile_calls(HERMES, 2, required=True)
    assert not takes(grammar, list("\n".join([FITTING] * 3).encode()))


@pytest.mark.parametrize(
    ("answer", "required", "free"),
    [
        (call(LLAMA, "count", '{"n": 3}'), True, True),
        (call(LLAMA, "count", '{"m": 3}'), False, False),
        (call(LLAMA, "count", '{"n": 3}') * 2, False, False),
        ('{"n": 3}', False, False),
        ("Well, {n}", False, True),
        ("", False, True),
    ],
)
def test_bare_calls(answer, required, free):
    token_ids = list(answer.encode())
    assert takes(compile_calls(LLAMA, 1, required=True), token_ids) is required
    assert takes(compile_calls(LLAMA, 1, required=False), token_ids) is free


def test_a_call_that_must_be_ends_the_answer_by_itself():
    matcher = compile_calls(HERMES, 1, required=True).start()
    for byte in FITTING.encode():
        assert not matcher.is_finished
        matcher.accept(byte)
    assert matcher.is_finished


def test_many_functions_fit_in_one_grammar():
    schema = {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(8)}}
    functions = tuple(CallableFunction(f"f{n}", StructuredOutput.json_schema(schema)) for n in range(128))
    grammar = byte_compiler().compile(ToolCallOutput(HERMES, functions, 1, is_call_required=True))
    assert takes(grammar, list(call(HERMES, "f127", '{"p7": "a"}').encode()))
