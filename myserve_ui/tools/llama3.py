"""Calls without a marker, as Llama 3.1 to 3.3 write them: the whole answer is one.

{"name": "weather", "parameters": {"city": "Paris"}}
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Llama3Format:
    """See core/tools.ToolFormat."""

    begin = ""
    end = ""
    arguments_key = "parameters"
    closing = "}"

    @classmethod
    def is_taught_by(cls, template: str) -> bool:
        return '"parameters": ' in template and '{"name": function name' in template

    def write_opening(self, name: str) -> str:
        return f'{{"name": "{name}", "parameters": '

    def find_call(self, text: str, *, is_start: bool) -> tuple[str, str | None, str]:
        """Only the very beginning of an answer can be a call; behind one, spaces at the end are the markup's."""
        begun = text.lstrip()
        if is_start and begun.startswith("{"):
            return "", text[: len(text) - len(begun)], begun
        said = text.rstrip()
        return said, None, text[len(said) :]
