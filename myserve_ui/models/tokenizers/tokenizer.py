"""The tokenizer of a Hugging Face model. What a user writes is text, whatever special tokens it spells."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property

import jinja2
from tokenizers import Tokenizer as RustTokenizer
from transformers import PreTrainedTokenizerBase

from myserve_ui.core.requests import Message
from myserve_ui.core.tools import Tool, ToolFormat
from myserve_ui.errors import InvalidRequestError, ModelLoadError
from myserve_ui.models.tokenizers.chat_template import (
    LOST_HERE,
    find_roles_in_parts,
    is_last_turn_said,
    message_value,
    tool_value,
)
from myserve_ui.models.tokenizers.control_tokens import ControlTokens, encode_beside_others, find_control_tokens
from myserve_ui.models.tokenizers.token_bytes import read_token_bytes
from myserve_ui.tools.formats import NOT_TAKEN, SPOKEN_TOKENS, recognise_tool_format, takes_tools

MAX_REASON_LENGTH = 300


class HuggingFaceTokenizer:
    """A fast tokenizer behind core's Tokenizer words.

    Every setting of the two Rust tokenizers is made here, once, and only read afterwards: transformers' own `__call__`
    switches settings back and forth on one shared object, which is not safe from several threads.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, vocab_size: int) -> None:
        """`vocab_size`: output rows of the model. Raises ModelLoadError for a tokenizer without a Rust backend."""
        backend = getattr(tokenizer, "backend_tokenizer", None)
        if not isinstance(backend, RustTokenizer):
            raise ModelLoadError(
                "The model has no fast tokenizer (tokenizer.json), which this server needs: convert it first."
            )
        self.vocab_size = vocab_size
        self.bos_token_id: int | None = tokenizer.bos_token_id
        self.has_chat_template = bool(tokenizer.chat_template)
        self.special_tokens: Mapping[int, str] = {
            token_id: token.content for token_id, token in tokenizer.added_tokens_decoder.items() if token.special
        }
        self._token_bytes: tuple[bytes, ...] | None = None
        self._tokenizer = tokenizer
        description = backend.to_str()
        self._special_as_ids = _copy(_with_spoken(description, backend), encode_special_tokens=False)
        self._special_as_text = _copy(description, encode_special_tokens=True)
        self._control_tokens = ControlTokens(
            find_control_tokens(tokenizer), as_ids=self._special_as_ids, as_text=self._special_as_text
        )

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """Ids of plain text; see core. Raises InvalidRequestError for a lone surrogate."""
        _check_characters(text)
        return encode_beside_others(self._special_as_text, text, add_special_tokens=add_special_tokens)

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text of ids, special tokens left out; ids without a word are left out too."""
        return self._special_as_ids.decode(list(token_ids), skip_special_tokens=True)

    def token_bytes(self) -> tuple[bytes, ...]:
        """Bytes that each id adds to a text; see core. Raises InvalidRequestError for WordPiece and the like."""
        if self._token_bytes is None:
            self._token_bytes = read_token_bytes(self._special_as_ids, self.vocab_size)
        return self._token_bytes

    @property
    def takes_tools(self) -> bool:
        """Whether the model has a tool_format."""
        return not isinstance(self._tool_support, str)

    def tool_format(self) -> ToolFormat:
        """How the model writes calls; see core."""
        if isinstance(self._tool_support, str):
            raise InvalidRequestError(self._tool_support)
        return self._tool_support

    def render_chat(
        self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), continue_final_message: bool = False
    ) -> list[int]:
        """Ids of the chat template over `messages`; see core."""
        if not self.has_chat_template:
            raise InvalidRequestError(
                "This model has no chat template: send text to /v1/completions, or set chat_template in the settings."
            )
        if isinstance(self._roles_in_parts, str):
            raise InvalidRequestError(self._roles_in_parts, param="messages")

        def render(said: Sequence[Message]) -> str:
            return self._render(said, tools, continue_final_message)

        chat = render(messages)
        if not is_last_turn_said(messages, chat, render, self._control_tokens.mark):
            raise InvalidRequestError(LOST_HERE, param="messages")
        _check_characters(chat)
        return self._control_tokens.encode(chat)

    @cached_property
    def _tool_support(self) -> ToolFormat | str:
        """The format of calls, or why there is none: found by trying once."""
        if not self.has_chat_template or not takes_tools(self._render):
            return NOT_TAKEN
        return recognise_tool_format(str(self._tokenizer.get_chat_template(tools=[{}])))

    @cached_property
    def _roles_in_parts(self) -> frozenset[str] | str:
        """Whose content the template wants as a list of parts, or why it cannot be used: found by trying once."""
        return find_roles_in_parts(lambda chat, in_parts: self._render_in(in_parts, chat, ()))

    def why_no_chat(self) -> str | None:
        """Why not even one word of a user can be rendered; None if it can, or if there is no template."""
        if not self.has_chat_template:
            return None
        try:
            self.render_chat([Message("user", "Hello")])
        except InvalidRequestError as error:
            return error.message
        return None

    def _render(self, messages: Sequence[Message], tools: Sequence[Tool], continue_final_message: bool = False) -> str:
        in_parts = self._roles_in_parts
        return self._render_in(
            frozenset() if isinstance(in_parts, str) else in_parts, messages, tools, continue_final_message
        )

    def _render_in(
        self,
        in_parts: frozenset[str],
        messages: Sequence[Message],
        tools: Sequence[Tool],
        continue_final_message: bool = False,
    ) -> str:
        mark = self._control_tokens.mark
        try:
            rendered = self._tokenizer.apply_chat_template(
                [message_value(message, mark, in_parts=message.role in in_parts) for message in messages],
                tools=[tool_value(tool, mark) for tool in tools] or None,
                tokenize=False,
                add_generation_prompt=not continue_final_message,
                continue_final_message=continue_final_message,
            )
        except jinja2.TemplateError as error:
            if type(error) is jinja2.TemplateError:  # what a template raises by itself; others are its own mistakes
                raise InvalidRequestError(
                    f"The model's chat template refuses these messages: {_reason(error)}", param="messages"
                ) from error
            raise InvalidRequestError(
                f"The model's chat template cannot be used ({_reason(error).rstrip('.')}): send text to "
                "/v1/completions, or give another with --chat-template."
            ) from error
        except Exception as error:  # the border of the template: what it computes with is the request's
            raise InvalidRequestError(
                f"The model's chat template cannot render these messages: {_reason(error)}", param="messages"
            ) from error
        return str(rendered)


def _with_spoken(description: str, backend: RustTokenizer) -> str:
    """A tokenizer's description in which SPOKEN_TOKENS are not special."""
    added = backend.get_added_tokens_decoder().values()
    if not any(token.special and token.content in SPOKEN_TOKENS for token in added):
        return description  # to read and write megabytes for nothing takes a tenth of a second
    parts = json.loads(description)
    for token in parts["added_tokens"]:
        token["special"] = token["special"] and token["content"] not in SPOKEN_TOKENS
    return json.dumps(parts)


def _copy(description: str, *, encode_special_tokens: bool) -> RustTokenizer:
    copy = RustTokenizer.from_str(description)
    copy.no_padding()
    copy.no_truncation()
    copy.encode_special_tokens = encode_special_tokens
    return copy


def _check_characters(text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise InvalidRequestError("The text has a lone surrogate, which is no character; leave it out.") from None


def _reason(error: Exception) -> str:
    return str(error)[:MAX_REASON_LENGTH]
