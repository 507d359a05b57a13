"""The bodies of /v1/compare and /v1/fidelity, extensions of this server: two models, and what they are asked."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from myserve_ui.api.chat_message import ChatMessage
from myserve_ui.api.sampling_fields import as_list
from myserve_ui.api.validation import refusal
from myserve_ui.api.wire_model import WireModel
from myserve_ui.core.requests import ChatRequest, Message
from myserve_ui.core.sampling_params import MAX_STOP_STRINGS, SamplingParams
from myserve_ui.evaluation.comparisons import MAX_ANSWER_TOKENS
from myserve_ui.evaluation.fidelity import FidelityRequest
from myserve_ui.serving.compare_service import CompareRequest, Timing

DEFAULT_ANSWER_TOKENS = 128


class PairFields(WireModel):
    """Two models, each a key of /v1/models or a precision of the default one; "full" and "nf4" if absent."""

    base: Annotated[str, Field(min_length=1)] | None = None
    candidate: Annotated[str, Field(min_length=1)] | None = None


class CompareBody(PairFields):
    """One prompt to both. Greedy unless a temperature is given, so that a difference is the models' own."""

    prompt: str | None = None
    messages: Annotated[list[ChatMessage], Field(min_length=1, fail_fast=True)] | None = None
    timing: Literal["in turn", "together"] | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    seed: int | None = None
    max_tokens: Annotated[int, Field(ge=1, le=MAX_ANSWER_TOKENS)] | None = None
    stop: Annotated[list[str] | None, Field(max_length=MAX_STOP_STRINGS), BeforeValidator(as_list)] = None
    evidence: bool | None = None
    """Whether both answers are scored by both models, token by token; true if absent."""

    @model_validator(mode="after")
    def _one_of_both(self) -> CompareBody:
        if (self.prompt is None) == (self.messages is None):
            raise refusal("needs either prompt or messages")
        return self

    def to_request(self) -> CompareRequest:
        params = SamplingParams(
            temperature=0.0 if self.temperature is None else self.temperature,
            top_p=self.top_p,
            top_k=self.top_k,
            min_p=self.min_p,
            seed=self.seed,
            max_tokens=self.max_tokens,
            stop=tuple(self.stop or ()),
        )
        return CompareRequest(
            ChatRequest(self._messages(), params=params, default_max_tokens=DEFAULT_ANSWER_TOKENS),
            base=self.base or "",
            candidate=self.candidate or "",
            timing=Timing(self.timing or Timing.IN_TURN),
        )

    def _messages(self) -> tuple[Message, ...]:
        if self.messages is not None:
            return tuple(message.to_message() for message in self.messages)
        return (Message("user", self.prompt or ""),)


class FidelityBody(PairFields):
    """A text that both score."""

    text: str
    window: int | None = None
    stride: int | None = None
    tokens: bool | None = None
    """Whether the answer has every token's own numbers; true if absent."""

    def to_request(self) -> FidelityRequest:
        return FidelityRequest(
            self.text,
            base=self.base or "",
            candidate=self.candidate or "",
            window=self.window,
            stride=self.stride,
        )
