"""What an answer with calls must look like: every call fits the schema of its function."""

from __future__ import annotations

from dataclasses import dataclass

from myserve_ui.core.schemas.structured_output import StructuredOutput
from myserve_ui.core.tools import ToolFormat

MAX_CALLS = 16
"""In one answer where calls are all it may hold: a model that is made to call does not always know when to stop."""


@dataclass(frozen=True, slots=True)
class CallableFunction:
    name: str
    arguments: StructuredOutput


@dataclass(frozen=True, slots=True)
class ToolCallOutput:
    """A shape that every token of an answer is held to, as StructuredOutput is. Equal shapes share one grammar."""

    format: ToolFormat
    functions: tuple[CallableFunction, ...]
    """Those that may be called; at least one."""
    max_calls: int
    is_call_required: bool
    """True: the answer is calls alone. False: it is text in which calls may stand."""


AnswerForm = StructuredOutput | ToolCallOutput
