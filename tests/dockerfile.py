"""Reads a Dockerfile into its instructions: comments, line continuations and the exec form understood."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction: `RUN`, and all that follows it on one line."""

    keyword: str
    value: str

    @property
    def exec_form(self) -> list[str] | None:
        """The words of `["python", "app.py"]`; None for the shell form."""
        try:
            words = json.loads(self.value)
        except json.JSONDecodeError:
            return None
        is_exec = isinstance(words, list) and all(isinstance(word, str) for word in words)
        return words if is_exec else None

    @property
    def pairs(self) -> dict[str, str]:
        """The names and values of ENV and ARG; an ARG without a default has an empty one."""
        return dict(word.partition("=")[::2] for word in shlex.split(self.value))

    @property
    def sources(self) -> list[str]:
        """What COPY takes from the build context."""
        return [word for word in shlex.split(self.value) if not word.startswith("--")][:-1]


def parse_dockerfile(text: str) -> list[Instruction]:
    """Instructions in order. Comments and empty lines are dropped inside a continued instruction too."""
    instructions, pending = [], ""
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        pending += line.strip()
        if pending.endswith("\\"):
            pending = pending[:-1]
            continue
        keyword, _, value = pending.partition(" ")
        instructions.append(Instruction(keyword.upper(), value.strip()))
        pending = ""
    if pending:
        raise ValueError(f"the last instruction goes on after the end: {pending[:60]}")
    return instructions
