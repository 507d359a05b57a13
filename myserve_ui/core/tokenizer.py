"""What the engine and the services ask of a tokenizer, whoever made it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from myserve_ui.core.requests import Message
from myserve_ui.core.tools import Tool, ToolFormat


class Tokenizer(Protocol):
    """Text to ids and back. Safe to call from several threads at once."""

    vocab_size: int
    """Rows of the model's output, not only the words in the vocabulary file: the ids of an answer are below.

    What is encoded may hold larger ids, where a vocabulary was extended and its model was not.
    """
    bos_token_id: int | None
    has_chat_template: bool
    special_tokens: Mapping[int, str]
    """Names of the ids that add nothing to a text, such as end tokens."""

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """Ids of plain text. Special tokens written as text stay text; BOS only if the tokenizer itself adds one."""
        ...

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text of ids, special tokens left out, spaces as they are; an unfinished character becomes U+FFFD."""
        ...

    def token_bytes(self) -> Sequence[bytes]:
        """Bytes that each of the vocab_size ids adds to a text; none for special tokens and for rows without a word.

        Reads the whole vocabulary, once. Raises InvalidRequestError if the tokenizer does not tell.
        """
        ...

    def tool_format(self) -> ToolFormat:
        """How the model writes calls. Raises InvalidRequestError, with the reason, if its template takes no tools."""
        ...

    def render_chat(
        self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), continue_final_message: bool = False
    ) -> list[int]:
        """Ids of the chat template over `messages`, ready for the assistant's turn; no second BOS.

        Raises InvalidRequestError if the model has no template or the template refuses the messages. Tools, and
        messages about them, are only for a model that has a tool_format.
        """
        ...
