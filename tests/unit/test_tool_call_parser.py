"""What is said and what is to be called come apart, whatever the pieces of text; what is no call stays text."""

import itertools
import json

import pytest

from myserve_ui.core.tools import ToolFormat
from myserve_ui.tools.call_bodies import CheckedBody, HeldBody
from myserve_ui.tools.call_parser import AnswerDelta, ToolCallParser
from myserve_ui.tools.formats import FORMATS
from myserve_ui.tools.hermes import HermesFormat
from myserve_ui.tools.llama3 import Llama3Format

NAMES = frozenset({"weather", "clock"})
HERMES, LLAMA = HermesFormat(), Llama3Format()


def call(name: str = "weather", arguments: str = '{"city": "Paris"}') -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


def checked_parser(call_format: ToolFormat = HERMES) -> ToolCallParser:
    return make_parser(call_format, lambda: CheckedBody(NAMES, call_format.arguments_key))


def held_parser(call_format: ToolFormat = HERMES) -> ToolCallParser:
    return make_parser(call_format, lambda: HeldBody(call_format.arguments_key))


def make_parser(call_format, start_body):
    ids = itertools.count()
    return ToolCallParser(call_format, start_body, make_id=lambda: f"call_{next(ids)}")


def read(parser: ToolCallParser, pieces) -> list[AnswerDelta]:
    return [*(parser.add(piece) for piece in pieces), parser.finish()]


def joined(deltas: list[AnswerDelta]) -> tuple[str, list[tuple[str, str, str]]]:
    """The text, and each call's id, name and arguments."""
    calls: dict[int, list[str]] = {}
    for delta in itertools.chain.from_iterable(delta.calls for delta in deltas):
        if delta.index not in calls:
            assert delta.id and delta.name and not delta.arguments
            calls[delta.index] = [delta.id, delta.name, ""]
        else:
            assert (delta.id, delta.name) == (None, None) and delta.arguments
            calls[delta.index][2] += delta.arguments
    return "".join(delta.text for delta in deltas), [tuple(parts) for parts in calls.values()]


PARIS = ("call_0", "weather", '{"city": "Paris"}')
ANSWERS = {
    "text alone": ("Hello  there\n", "Hello  there\n", []),
    "a call alone": (call(), "", [PARIS]),
    "text before a call": (f"Let me look.\n\n{call()}", "Let me look.", [PARIS]),
    "two calls": (f"{call()}\n{call('clock', '{}')}\n", "", [PARIS, ("call_1", "clock", "{}")]),
    "text after a call": (f"{call()}\nDone.", "\nDone.", [PARIS]),
    "a marker inside a string": (
        call(arguments='{"city": "</tool_call> \\" }{"}'),
        "",
        [("call_0", "weather", '{"city": "</tool_call> \\" }{"}')],
    ),
    "not spaced as asked": (
        '<tool_call>{"arguments":{"city":"Rome"},"name":"weather"}</tool_call>',
        "",
        [("call_0", "weather", '{"city":"Rome"}')],
    ),
    "no closing marker": ('<tool_call>\n{"name": "clock", "arguments": {}}', "", [("call_0", "clock", "{}")]),
    "half a closing marker": (call()[:-4], "", [PARIS]),
    "no arguments": ('<tool_call>{"name": "clock"}</tool_call>', "", [("call_0", "clock", "{}")]),
    "emoji and escapes": (
        call(arguments='{"city": "🙂 \\ud800 \\n"}'),
        "",
        [("call_0", "weather", '{"city": "🙂 \\ud800 \\n"}')],
    ),
}
TEXT_AFTER_ALL = [
    "<tool",
    "a < b, <tools> and <tool_cal",
    "<tool_call>",
    " <tool_call>\n\n",
    "So: <tool_call>\nhello\n</tool_call> bye",
    call(arguments='{"city": }'),
    call(arguments="{'city': 1}"),
    call(arguments="[1]"),
    call(arguments='{"city": NaN}'),
    call(arguments=f'{{"city": {"9" * 5000}}}'),
    call(arguments='{"city": ' * 2000 + "1" + "}" * 2000),
    call("unknown"),
    '<tool_call>{"arguments": {}}</tool_call>',
    '<tool_call>{"name": 5, "arguments": {}}</tool_call>',
    call()[:-20],
    "<tool_call>\n<tool_call>",
]


@pytest.mark.parametrize(("answer", "text", "calls"), ANSWERS.values(), ids=ANSWERS)
def test_text_and_calls_come_apart(answer, text, calls):
    assert joined(read(checked_parser(), [answer])) == (text, calls)


@pytest.mark.parametrize("answer", [answer for answer, *_ in ANSWERS.values()] + TEXT_AFTER_ALL)
def test_pieces_make_no_difference(answer):
    whole = joined(read(checked_parser(), [answer]))
    assert joined(read(checked_parser(), answer)) == whole
    for cut in range(min(len(answer), 120)):
        assert joined(read(checked_parser(), [answer[:cut], answer[cut:]])) == whole


@pytest.mark.parametrize("answer", TEXT_AFTER_ALL)
def test_what_is_no_call_is_text_marker_and_all(answer):
    parser = checked_parser()
    assert joined(read(parser, [answer])) == (answer, [])
    assert not parser.has_only_whole_calls


def test_a_call_after_one_that_was_none_is_a_call():
    text, calls = joined(read(checked_parser(), [f"{call('unknown')}\n{call()}"]))
    assert (text, calls) == (call("unknown"), [PARIS])


def test_text_is_told_at_once_unless_a_marker_may_begin_in_it():
    parser = checked_parser()
    assert parser.add("Hello").text == "Hello"
    assert parser.add(" \n<tool").text == ""
    assert parser.add("box> ").text == " \n<toolbox>"
    assert parser.finish().text == " "


def test_a_held_call_is_told_as_it_comes():
    parser = held_parser()
    assert parser.add('Hi\n<tool_call>\n{"name": "weather", "argu') == AnswerDelta("Hi")
    opened = parser.add('ments": {"city": "Pa')
    assert [(delta.id, delta.name, delta.arguments) for delta in opened.calls] == [
        ("call_0", "weather", ""),
        (None, None, '{"city": "Pa'),
    ]
    assert not parser.has_only_whole_calls
    assert [delta.arguments for delta in parser.add('ris}"}').calls] == ['ris}"}']
    assert parser.add("}\n</tool_call>") == AnswerDelta()
    assert parser.has_only_whole_calls


@pytest.mark.parametrize("answer", [call(), f"Look.\n{call()}\n{call('clock', '{ }')}", "plain text", f"a {call()} b"])
def test_a_held_call_reads_like_a_checked_one_in_any_pieces(answer):
    whole = joined(read(checked_parser(), [answer]))
    assert joined(read(held_parser(), answer)) == whole
    assert joined(read(held_parser(), [answer])) == whole


@pytest.mark.parametrize("cut", range(1, len(call()) - len("}\n</tool_call>") + 1))
def test_no_marker_leaks_from_a_held_call_that_the_length_cut(cut):
    parser = held_parser()
    text, calls = joined(read(parser, [call()[:cut]]))
    assert text in ("", "<tool_call>"[:cut])
    assert all(PARIS[2].startswith(arguments) for *_, arguments in calls)
    assert not parser.has_only_whole_calls


@pytest.mark.parametrize("cut", ["\n", "\n<", " <tool", "<tool_call"])
def test_no_marker_leaks_that_is_cut_behind_a_call(cut):
    for parser in (held_parser(), checked_parser()):
        assert joined(read(parser, [call() + cut])) == ("", [PARIS])


LLAMA_ANSWERS = {
    "a call": ('{"name": "weather", "parameters": {"city": "Paris"}}', "", [PARIS]),
    "a call between spaces": ('\n {"name": "weather", "parameters": {"city": "Paris"}}\n', "", [PARIS]),
    "other JSON": ('{"city": "Paris"}', '{"city": "Paris"}', []),
    "text": (' So {"name": "clock"}', ' So {"name": "clock"}', []),
    "text after": ('{"name": "clock", "parameters": {}} and', " and", [("call_0", "clock", "{}")]),
    "cut": ('{"name": "clock", "parame', '{"name": "clock", "parame', []),
}


@pytest.mark.parametrize(("answer", "text", "calls"), LLAMA_ANSWERS.values(), ids=LLAMA_ANSWERS)
def test_llama_calls_are_answers_that_begin_with_the_object(answer, text, calls):
    assert joined(read(checked_parser(LLAMA), [answer])) == (text, calls)
    assert joined(read(checked_parser(LLAMA), answer)) == (text, calls)


def test_arguments_are_json_as_the_model_wrote_it():
    for answer, *_ in ANSWERS.values():
        for *_, arguments in joined(read(checked_parser(), [answer]))[1]:
            assert isinstance(json.loads(arguments), dict)
            assert arguments in answer or arguments == "{}"


@pytest.mark.parametrize("kind", FORMATS)
def test_what_a_format_writes_it_reads(kind):
    written = kind().write_opening("weather") + '{"city": "Paris"}' + kind().closing
    for parser in (held_parser(kind()), checked_parser(kind())):
        assert joined(read(parser, written)) == ("", [PARIS])
        assert parser.has_only_whole_calls
