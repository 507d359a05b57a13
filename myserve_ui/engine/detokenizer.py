"""Turns a growing list of ids into text, piece by piece, without ever sending half a character."""

from __future__ import annotations

from collections.abc import Callable, Sequence

CONTEXT_TOKENS = 6
"""Prompt tokens kept in view, so that a tokenizer that strips leading spaces sees that the text goes on."""

MAX_BYTES = 4
"""Of a character."""

MAX_PENDING_TOKENS = 16
"""A character is at most MAX_BYTES long, so text still broken after this many tokens is broken for good."""

REPLACEMENT = "\ufffd"


class Detokenizer:
    """Incremental decoding of one sequence in O(1) per token.

    Only a short window is decoded again at each step: the tokens of the last complete piece that had text, and the
    pending ones after it. What the pending tokens add to the window's text is new; it is held back while it ends in
    half a character. The joined pieces are the same however many ids come at a time.
    """

    def __init__(self, decode: Callable[[Sequence[int]], str], prompt_token_ids: Sequence[int] = ()) -> None:
        self._decode = decode
        self._window = _last_with_text(decode, prompt_token_ids)
        self._num_known = len(self._window)
        self._known_text = decode(self._window) if self._window else ""

    def add(self, token_id: int) -> str:
        """Take the next id and return the text that is certain now, often "" inside a character."""
        self._window.append(token_id)
        text = self._decode(self._window)
        pending = len(self._window) - self._num_known
        if text.endswith(REPLACEMENT) and pending < MAX_PENDING_TOKENS:
            return ""
        return self._advance(text)

    def flush(self) -> str:
        """Return what is still held back, broken or not. Call once, at the end."""
        if len(self._window) == self._num_known:
            return ""
        return self._advance(self._decode(self._window))

    def _advance(self, text: str) -> str:
        pending = self._window[self._num_known :]
        delta = self._new_part(text, pending)
        if not delta:
            self._keep_in_view()
            return ""
        self._window, self._num_known = pending, len(pending)
        self._known_text = self._decode(pending)
        return delta

    def _keep_in_view(self) -> None:
        """The pending tokens have no text, as special ones have none: what was in view before them stays.

        Alone in view they would make a first word of the next one, and many tokenizers give that no space.
        """
        if self._known_text or len(self._window) >= MAX_PENDING_TOKENS:
            del self._window[self._num_known :]
        self._num_known = len(self._window)

    def _new_part(self, text: str, pending: list[int]) -> str:
        if text.startswith(self._known_text):
            return text[len(self._known_text) :]
        return self._decode(pending)  # the pending bytes broke the decoding of those before them, already sent


def _last_with_text(decode: Callable[[Sequence[int]], str], token_ids: Sequence[int]) -> list[int]:
    """The last CONTEXT_TOKENS of `token_ids` but for special ones at their end, which decode to nothing.

    A few more where those would begin inside a character: some tokenizers take all bytes in a row for broken then.
    """
    for end in range(len(token_ids), 0, -CONTEXT_TOKENS):
        for start in range(end - CONTEXT_TOKENS, end - CONTEXT_TOKENS - MAX_BYTES, -1):
            window = list(token_ids[max(start, 0) : end])
            text = decode(window)
            if start <= 0 or not text.startswith(REPLACEMENT):
                break
        if text:
            return window
    return list(token_ids[-CONTEXT_TOKENS:])
