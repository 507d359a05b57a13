"""What a door asks of the service: the same words for the browser and the OpenAI route."""

from __future__ import annotations

from dataclasses import dataclass, field

from myserve_ui.core.sampling_params import SamplingParams
from myserve_ui.core.tools import Tool, ToolCall, ToolChoice

COMPLETION_MAX_TOKENS = 16
"""max_tokens of a text completion that does not say, as OpenAI's reference has it."""


@dataclass(frozen=True, slots=True)
class Message:
    role: str
    """"system" | "user" | "assistant" | "tool"; a door maps "developer" to "system"."""
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    """What an assistant's turn asked to call."""
    tool_call_id: str | None = None
    """Which call a tool's turn answers."""

    @property
    def is_about_tools(self) -> bool:
        return self.role == "tool" or bool(self.tool_calls)


@dataclass(frozen=True, slots=True)
class ChatRequest:
    messages: tuple[Message, ...]
    model: str = ""
    """A key of the catalog, `NAME` or `NAME:precision`; empty for the default model."""
    params: SamplingParams = field(default_factory=SamplingParams)
    continue_final_message: bool = False
    """Go on writing the last assistant message instead of starting a new turn."""
    cache_prompt: bool = True
    """False: compute the whole prompt, even where a prefix of it is in the cache."""
    tools: tuple[Tool, ...] = ()
    tool_choice: ToolChoice = field(default_factory=ToolChoice)
    parallel_tool_calls: bool = True
    """False: one call at most in an answer."""
    cache_response: bool = False
    """True: answer a greedy or seeded request from the response cache, and keep its answer there."""
    cache_owner: str = ""
    """Who may be given the answer again, such as a digest of the API key; never shared between owners."""
    default_max_tokens: int | None = None
    """Length of an answer where params.max_tokens is None, as far as the context has room; None: all the room."""


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    prompt: str | tuple[int, ...]
    """Text, or token ids that are used as they are."""
    model: str = ""
    params: SamplingParams = field(default_factory=SamplingParams)
    cache_prompt: bool = True
    cache_response: bool = False
    cache_owner: str = ""
    default_max_tokens: int = COMPLETION_MAX_TOKENS
    """As in ChatRequest."""
