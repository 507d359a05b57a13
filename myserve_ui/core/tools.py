"""Functions that a model may ask the client to call, and the calls it asks for."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

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
