"""Writes the shape of an answer in the grammar library's own language, a dialect of Lark."""

from __future__ import annotations

import json

from myserve_ui.core.schemas.structured_output import StructuredOutput
from myserve_ui.core.tool_call_output import AnswerForm, ToolCallOutput

WHITESPACE = r"[ ]|\n[ \t]{0,32}"
"""One space, or a new line with its indent. Left open, a small model writes blank lines until max_tokens."""

HEADER = '%llguidance {"no_forcing": true}'
"""The choice of tokens is left to the model, also where only one text is possible."""
ONE_SPELLING = 'nrbtf"\\'
"""Escapes without \\u, so that a key can be written in one way only: \\u0061 would pass for another key than a."""
ANY_TEXT = r"/(.|\n)*/"
TEXT_WITHOUT_BRACE = r"/(\s*[^\s{](.|\n)*)?/"


def write_grammar(form: AnswerForm) -> str:
    """The grammar of `form`."""
    if isinstance(form, StructuredOutput):
        return f"{HEADER}\nstart: {_write_schema(form)}\n"
    lines = [HEADER, *_write_start(form)]
    for index, function in enumerate(form.functions):
        opening = form.format.write_opening(function.name).removeprefix(form.format.begin)
        lines.append(f"call_{index}: {_quote(opening)} arguments_{index} {_quote(form.format.closing)}")
        lines.append(f"arguments_{index}: {_write_schema(function.arguments)}")
    return "\n".join(lines) + "\n"


def _write_start(form: ToolCallOutput) -> list[str]:
    """Where calls may stand, and then which: a call is what follows its opening marker."""
    any_call = "call: " + " | ".join(f"call_{index}" for index in range(len(form.functions)))
    if not form.format.begin:
        return ["start: call" if form.is_call_required else f"start: call | {TEXT_WITHOUT_BRACE}", any_call]
    marker = _quote(form.format.begin)
    if form.is_call_required:
        more = f' ("\\n" {marker} call){{0,{form.max_calls - 1}}}' if form.max_calls > 1 else ""
        return [f"start: {marker} call{more}", any_call]
    start = "start: (marked call)* text" if form.max_calls > 1 else "start: marked call | text"
    # lazy: text ends where the first marker ends, so that no marker is ever part of the text after it
    return [start, f"text: {ANY_TEXT}", f"marked[lazy]: /(.|\\n)*{form.format.begin}/", any_call]


def _write_schema(output: StructuredOutput) -> str:
    """A JSON value, the library strict about keywords."""
    options: dict[str, object] = {"whitespace_pattern": WHITESPACE, "lenient": False, "coerce_one_of": False}
    if output.names_keys:
        options["json_allowed_escapes"] = ONE_SPELLING
    return "%json " + json.dumps(json.loads(output.schema) | {"x-guidance": options})


def _quote(text: str) -> str:
    return json.dumps(text)
