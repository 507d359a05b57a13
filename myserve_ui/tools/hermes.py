"""Calls in tags, as Hermes 2 and 3, Qwen 2.5 and 3, and SmolLM3 write them.

<tool_call>
{"name": "weather", "arguments": {"city": "Paris"}}
</tool_call>

Described at https://github.com/NousResearch/Hermes-Function-Calling.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class HermesFormat:
    """See core/tools.ToolFormat."""

    begin = "<tool_call>"
    end = "</tool_call>"
    arguments_key = "arguments"
    closing = "}\n</tool_call>"

    @classmethod
    def is_taught_by(cls, template: str) -> bool:
        return cls.begin in template and cls.end in template

    def write_opening(self, name: str) -> str:
        return f'{self.begin}\n{{"name": "{name}", "arguments": '

    def find_call(self, text: str, *, is_start: bool) -> tuple[str, str | None, str]:
        """The marker may stand anywhere; the spaces before it are its own."""
        at = text.find(self.begin)
        if at < 0:
            held = _possible_start(text, self.begin)
            return text[: len(text) - held], None, text[len(text) - held :]
        said, end = text[:at].rstrip(), at + len(self.begin)
        return said, text[len(said) : end], text[end:]


def _possible_start(text: str, marker: str) -> int:
    """Length of the end of `text` that may turn out to stand before or in `marker`."""
    longest = min(len(text), len(marker) - 1)
    begun = next((length for length in range(longest, 0, -1) if marker.startswith(text[-length:])), 0)
    before = text[: len(text) - begun]
    return begun + len(before) - len(before.rstrip())
