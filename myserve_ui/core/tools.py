"""Functions that a model may ask the client to call, the calls it asks for, and how it writes them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

MAX_TOOLS = 128
"""As OpenAI's reference has it."""
MAX_TOOLS_BYTES = 128 * 1024
"""Names, descriptions and schemas of all functions as JSON: some 30,000 tokens, more than most contexts hold."""


class ToolMode(StrEnum):
    NONE = "none"
    """Text only: the model is not told of the functions."""
    AUTO = "auto"
    """Text, calls, or both, as the model likes."""
    REQUIRED = "required"
    """Calls only, one at least."""


@dataclass(frozen=True, slots=True)
class ToolChoice:
    mode: ToolMode = ToolMode.AUTO
    name: str | None = None
    """The one function to call, with REQUIRED."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A function of the client's."""

    name: str
    parameters: str
    """JSON schema of its arguments, an object, as compact JSON."""
    description: str | None = None
    strict: bool = False
    """Hold the arguments to the schema, even where the model may call or not."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call in the history of a chat."""

    id: str
    name: str
    arguments: str
    """A JSON object as the model wrote it."""


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """News of one call. The first of a call brings id and name; the `arguments` of all joined are a JSON object."""

    index: int
    id: str | None = None
    name: str | None = None
    arguments: str = ""


class ToolFormat(Protocol):
    """How a family of models writes a call into its text: `begin`, a JSON object, `end`. Equal formats are one."""

    @property
    def begin(self) -> str:
        """The opening marker, "" where a call is an answer that begins with the object, and there is one at most."""
        ...

    @property
    def end(self) -> str: ...

    @property
    def arguments_key(self) -> str:
        """Of the object's member that holds the arguments; the function's is "name"."""
        ...

    def write_opening(self, name: str) -> str:
        """What stands before the arguments of a call of `name`, spaced as models were trained to."""
        ...

    @property
    def closing(self) -> str:
        """What stands after the arguments."""
        ...

    def find_call(self, text: str, *, is_start: bool) -> tuple[str, str | None, str]:
        """Part `text` into what is no call for sure, spaces and marker of a call, None if none has begun, and the rest.

        The rest is the beginning of a call, or what may turn out to be one. `is_start`: nothing was said before.
        """
        ...
