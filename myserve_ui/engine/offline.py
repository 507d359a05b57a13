"""Answers requests on the thread that calls, with nobody who waits: for scripts, tests and measurements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from myserve_ui.core.outputs import FinishReason, RequestOutput, TokenLogprob, Usage
from myserve_ui.engine.engine import Engine
from myserve_ui.engine.sequence import EngineRequest


@dataclass(slots=True)
class Answer:
    """All that came for one request."""

    text: str = ""
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[TokenLogprob] = field(default_factory=list)
    """One for each of `token_ids`, if they were asked for."""
    prompt_logprobs: list[TokenLogprob] = field(default_factory=list)
    usage: Usage | None = None
    finish_reason: FinishReason | None = None
    stop_reason: str | int | None = None
    error: str | None = None
    """A sentence, with finish_reason ERROR."""

    def take(self, output: RequestOutput) -> None:
        """Add what `output` brings."""
        self.text += output.text_delta
        self.token_ids += output.token_ids
        self.logprobs += output.logprobs
        self.prompt_logprobs += output.prompt_logprobs
        self.usage, self.error = output.usage, output.error
        self.finish_reason, self.stop_reason = output.finish_reason, output.stop_reason


def run_steps(engine: Engine) -> Iterator[list[RequestOutput]]:
    """Step until there is nothing left to do; the outputs of each step. Raises what a step raises."""
    while engine.has_work:
        yield engine.step()


def answer_all(engine: Engine, requests: Sequence[EngineRequest]) -> list[Answer]:
    """The answers to `requests`, in their order; they are computed side by side, as far as the engine has room."""
    answers = {request.request_id: Answer() for request in requests}
    for request in requests:
        engine.add(request)
    for outputs in run_steps(engine):
        for output in outputs:
            if (answer := answers.get(output.request_id)) is not None:
                answer.take(output)
    return list(answers.values())
