"""A tokenizer that needs no files: one id per UTF-8 byte, then BOS and EOS. For the echo engine and seeded models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NoReturn

from myserve_ui.core.requests import Message
from myserve_ui.core.tools import Tool
from myserve_ui.errors import InvalidRequestError

NUM_BYTES = 256
BOS_TOKEN_ID = 256
EOS_TOKEN_ID = 257
SMALLEST_VOCABULARY = 258


class ByteTokenizer:
    """Ids 0..255 are bytes, 256 BOS, 257 EOS; ids above are empty rows that decode to nothing.

    A chat is BOS and one `role: content` line per message, then `assistant: ` for the answer.
    """

    has_chat_template = True
    bos_token_id: int | None = BOS_TOKEN_ID
    eos_token_id = EOS_TOKEN_ID
    special_tokens: Mapping[int, str] = MappingProxyType({BOS_TOKEN_ID: "<bos>", EOS_TOKEN_ID: "<eos>"})

    def __init__(self, vocab_size: int = SMALLEST_VOCABULARY) -> None:
        if vocab_size < SMALLEST_VOCABULARY:
            raise ValueError(f"a byte vocabulary needs {SMALLEST_VOCABULARY} ids, got {vocab_size}")
        self.vocab_size = vocab_size

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """UTF-8 bytes of `text`, BOS first if asked for. Raises InvalidRequestError for a lone surrogate."""
        try:
            data = text.encode("utf-8")
        except UnicodeEncodeError:
            raise InvalidRequestError("The text has a lone surrogate, which is no character; leave it out.") from None
        return [BOS_TOKEN_ID, *data] if add_special_tokens else list(data)

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text of the bytes among `token_ids`; broken UTF-8 becomes U+FFFD."""
        return bytes(token_id for token_id in token_ids if token_id < NUM_BYTES).decode("utf-8", errors="replace")

    def token_bytes(self) -> tuple[bytes, ...]:
        """Bytes that each id adds to a text; see core."""
        return tuple(bytes([token_id]) if token_id < NUM_BYTES else b"" for token_id in range(self.vocab_size))

    def tool_format(self) -> NoReturn:
        """Bytes know no tools; see core."""
        raise InvalidRequestError("This model's chats take no tools: leave tools out, or use another model.")

    def render_chat(
        self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), continue_final_message: bool = False
    ) -> list[int]:
        """Ids of the chat, ready for the assistant's turn or in the middle of the last message."""
        if tools:
            self.tool_format()
        text = "\n".join(f"{message.role}: {message.content}" for message in messages)
        return self.encode(text if continue_final_message else f"{text}\nassistant: ")
