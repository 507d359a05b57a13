"""How families of models write a call into their text."""

from __future__ import annotations

from enum import Enum


class ToolFormat(Enum):
    """A call is `begin`, a JSON object with the function's name and its arguments, `end`.

    Without a `begin` a call is an answer that begins with the object, and there is one at most.
    """

    HERMES = ("<tool_call>", "</tool_call>", "arguments")
    """Hermes 2 and 3, Qwen 2.5 and 3, SmolLM3: https://github.com/NousResearch/Hermes-Function-Calling."""
    LLAMA_JSON = ("", "", "parameters")
    """Llama 3.1 to 3.3."""

    def __init__(self, begin: str, end: str, arguments_key: str) -> None:
        self.begin = begin
        self.end = end
        self.arguments_key = arguments_key

    @property
    def can_repeat(self) -> bool:
        """Whether an answer may hold several calls."""
        return bool(self.begin)

    def write_opening(self, name: str) -> str:
        """What stands before the arguments of a call of `name`, spaced as models were trained to."""
        newline = "\n" if self.begin else ""
        return f'{self.begin}{newline}{{"name": "{name}", "{self.arguments_key}": '

    @property
    def closing(self) -> str:
        """What stands after the arguments."""
        return "}\n" + self.end if self.end else "}"
