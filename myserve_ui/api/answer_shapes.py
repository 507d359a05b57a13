"""The two shapes of an answer in OpenAI's reference, chat and text completion, whole and in chunks."""

from __future__ import annotations

from typing import Protocol

from myserve_ui.api.answer_pieces import Piece
from myserve_ui.api.answer_reader import AnswerWishes
from myserve_ui.api.call_shapes import call_delta, whole_calls
from myserve_ui.api.logprob_shapes import LogprobWriter
from myserve_ui.api.wire_json import JsonObject
from myserve_ui.serving.stream_group import StreamGroup

Choice = dict[str, object]


class AnswerShape(Protocol):
    """How pieces are written. `extras` of an answer stand beside its choices."""

    whole_name: str
    chunk_name: str

    def whole(self, piece: Piece) -> Choice: ...

    def opening(self, index: int) -> Choice | None:
        """The first chunk's choice, before any piece; None if there is none."""
        ...

    def chunk(self, piece: Piece) -> Choice: ...

    def extras(self) -> JsonObject: ...


class ChatShape:
    """chat.completion and its chunks. Prompt ids stand beside the choices, since all have one prompt."""

    whole_name = "chat.completion"
    chunk_name = "chat.completion.chunk"

    def __init__(self, group: StreamGroup, wishes: AnswerWishes) -> None:
        self._writer = LogprobWriter(group.streams[0].tokenizer) if wishes.logprobs else None
        self._tells_ids = wishes.token_ids
        self._prompt_token_ids = group.streams[0].prompt_token_ids

    def whole(self, piece: Piece) -> Choice:
        message: Choice = {"role": "assistant", "content": piece.text, "refusal": None}
        if piece.calls:
            message |= {"content": piece.text or None, "tool_calls": whole_calls(piece.calls)}
        logprobs = self._writer.chat(piece.tokens) if self._writer else None
        return {"index": piece.index, "message": message, "logprobs": logprobs, **_rest(piece, self._tells_ids)}

    def opening(self, index: int) -> Choice | None:
        """The role, once."""
        delta = {"role": "assistant", "content": ""}
        return {"index": index, "delta": delta, "logprobs": None, "finish_reason": None}

    def chunk(self, piece: Piece) -> Choice:
        delta: Choice = {"content": piece.text} if piece.text else {}
        if piece.calls:
            delta["tool_calls"] = [call_delta(call) for call in piece.calls]
        logprobs = self._writer.chat(piece.tokens) if self._writer and piece.tokens else None
        return {"index": piece.index, "delta": delta, "logprobs": logprobs, **_rest(piece, self._tells_ids)}

    def extras(self) -> JsonObject:
        return {"prompt_token_ids": list(self._prompt_token_ids)} if self._tells_ids else {}


class TextShape:
    """text_completion, whole and in chunks. Prompt ids stand in the choices, since each may have its own prompt."""

    whole_name = chunk_name = "text_completion"

    def __init__(self, group: StreamGroup, wishes: AnswerWishes) -> None:
        self._writer = LogprobWriter(group.streams[0].tokenizer) if wishes.logprobs else None
        self._tells_ids = wishes.token_ids
        self._prompts = [stream.prompt_token_ids for stream in group.streams]

    def whole(self, piece: Piece) -> Choice:
        prompt = {"prompt_token_ids": list(self._prompts[piece.index])} if self._tells_ids else {}
        return {**self._choice(piece, self._writer.text(piece.tokens) if self._writer else None), **prompt}

    def opening(self, index: int) -> Choice | None:
        """Only prompt ids that were asked for come before any piece."""
        if not self._tells_ids:
            return None
        return {**self.chunk(Piece(index)), "prompt_token_ids": list(self._prompts[index])}

    def chunk(self, piece: Piece) -> Choice:
        return self._choice(piece, self._writer.text(piece.tokens) if self._writer and piece.tokens else None)

    def extras(self) -> JsonObject:
        return {}

    def _choice(self, piece: Piece, logprobs: JsonObject | None) -> Choice:
        return {"index": piece.index, "text": piece.text, "logprobs": logprobs, **_rest(piece, self._tells_ids)}


def _rest(piece: Piece, tells_ids: bool) -> JsonObject:
    """How the choice ended, null while it goes on, and its ids if they were asked for."""
    ending = {} if piece.finish_reason is None else {"stop_reason": piece.stop_reason}
    token_ids = {"token_ids": list(piece.token_ids)} if tells_ids else {}
    return {"finish_reason": piece.finish_reason, **ending, **token_ids}
