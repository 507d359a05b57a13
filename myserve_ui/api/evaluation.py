"""/v1/compare and /v1/fidelity, extensions of this server: what a cheaper precision changes, as one document each."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Literal, Protocol, TypeVar

from fastapi import APIRouter, Request, Response
from pydantic import Field, model_validator

from myserve_ui.api.bodies import WireModel
from myserve_ui.api.chat.protocol import ChatMessage
from myserve_ui.api.errors import refusal
from myserve_ui.api.responses import json_response, while_connected
from myserve_ui.api.sampling import MinP, Seed, StopStrings, Temperature, TopK, TopP
from myserve_ui.core.requests import ChatRequest, Message
from myserve_ui.core.sampling_params import SamplingParams
from myserve_ui.errors import GenerationFailedError
from myserve_ui.evaluation.comparison_document import Comparison
from myserve_ui.evaluation.comparisons import MAX_ANSWER_TOKENS, Comparisons
from myserve_ui.evaluation.documents import FidelityReport
from myserve_ui.evaluation.fidelity import FidelityRequest
from myserve_ui.serving.compare_service import CompareRequest, Timing

DEFAULT_ANSWER_TOKENS = 128
D_co = TypeVar("D_co", covariant=True)


class Step(Protocol[D_co]):
    """News of a measurement; the last one carries the document."""

    @property
    def document(self) -> D_co | None: ...


class PairFields(WireModel):
    """Two models, each a key of /v1/models or a precision of the default one; "full" and "nf4" if absent."""

    base: Annotated[str, Field(min_length=1)] | None = None
    candidate: Annotated[str, Field(min_length=1)] | None = None


class CompareBody(PairFields):
    """One prompt to both. Greedy unless a temperature is given, so that a difference is the models' own."""

    prompt: str | None = None
    messages: Annotated[list[ChatMessage], Field(min_length=1, fail_fast=True)] | None = None
    timing: Literal["in turn", "together"] | None = None
    temperature: Temperature | None = None
    top_p: TopP | None = None
    top_k: TopK | None = None
    min_p: MinP | None = None
    seed: Seed | None = None
    max_tokens: Annotated[int, Field(ge=1, le=MAX_ANSWER_TOKENS)] | None = None
    stop: StopStrings = None
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


def add_evaluation_routes(router: APIRouter, comparisons: Comparisons) -> None:
    """Add the two routes. Both load what is not loaded; a client that leaves ends the work."""

    @router.post("/v1/compare", response_model=Comparison)
    async def compare(body: CompareBody, request: Request) -> Response:
        """Two models on one prompt, with evidence of where they part."""
        steps = comparisons.compare(body.to_request(), evidence=body.evidence is not False)
        document = await while_connected(request.receive, _document(steps))
        return json_response(document.as_json())

    @router.post("/v1/fidelity", response_model=FidelityReport)
    async def fidelity(body: FidelityBody, request: Request) -> Response:
        """What one model loses against another, token by token of a given text."""
        document = await while_connected(request.receive, _document(comparisons.report(body.to_request())))
        return json_response((document if body.tokens is not False else document.without_tokens()).as_json())


async def _document(steps: AsyncGenerator[Step[D_co], None]) -> D_co:
    """What the last of `steps` carries; they are closed whatever happens."""
    async with aclosing(steps):
        async for step in steps:
            if step.document is not None:
                return step.document
    raise GenerationFailedError("The measurement ended early. Ask again.")
