"""Named endpoints for comparing: /compare, /fidelity and /perplexity, with small results."""

# No `from __future__ import annotations` here: Gradio reads the annotations of these functions as objects.

from collections.abc import AsyncGenerator
from typing import Literal, TypeVar

import gradio as gr

from myserve_ui.core.requests import ChatRequest, Message
from myserve_ui.core.sampling_params import SamplingParams
from myserve_ui.errors import GenerationFailedError, InvalidRequestError, MyServeError
from myserve_ui.evaluation.comparisons import Comparisons
from myserve_ui.evaluation.documents import TextScores
from myserve_ui.evaluation.fidelity import FidelityRequest, Progress
from myserve_ui.serving.compare_service import CompareRequest, Timing
from myserve_ui.ui.compare.run import DEFAULT_TOKENS
from myserve_ui.ui.shared.streams import with_heartbeat

R = TypeVar("R", bound=TextScores)


class CompareEndpoints:
    """Over one `Comparisons`. Names of models are ids of /models, or precisions of the default model."""

    def __init__(self, comparisons: Comparisons) -> None:
        self._comparisons = comparisons

    def register(self) -> None:
        """Add the endpoints to the open gr.Blocks."""
        gr.api(self.compare, api_name="compare", concurrency_limit=None)
        gr.api(self.fidelity, api_name="fidelity", concurrency_limit=None)
        gr.api(self.perplexity, api_name="perplexity", concurrency_limit=None)

    async def compare(
        self,
        prompt: str,
        base: str = "",
        candidate: str = "",
        system_prompt: str = "",
        temperature: float = 0.0,
        seed: int | None = None,
        max_tokens: int | None = None,
        timing: Literal["in turn", "together"] = "in turn",
        evidence: bool = True,
    ) -> AsyncGenerator[dict[str, object], None]:
        """Answer a prompt by two models. Streams both texts so far; the last value is the whole result.

        prompt: what both answer. base, candidate: an id of /models or a precision of the default model such as "nf4";
        empty for full precision against nf4. system_prompt: what both are told first. temperature (0..2, 0 is
        greedy), seed: the same for both. max_tokens: longest answer, 1 to 512. timing: "in turn" for clean speeds, or
        "together". evidence: whether both answers are scored by both models. The result has answers, memory, notes
        and evidence (the split with its verdict, the noise floor, every token's divergence).
        """
        try:
            if not isinstance(prompt, str) or not prompt.strip():
                raise InvalidRequestError("prompt is empty. Send some text.", param="prompt")
            _check_texts(base=base, candidate=candidate, system_prompt=system_prompt)
            _check_choice("evidence", evidence)
            said = [Message("system", system_prompt)] if system_prompt.strip() else []
            request = CompareRequest(
                ChatRequest(
                    (*said, Message("user", prompt)),
                    params=SamplingParams(temperature=temperature, seed=seed, max_tokens=max_tokens),
                    default_max_tokens=DEFAULT_TOKENS,
                ),
                base=base,
                candidate=candidate,
                timing=_timing(timing),
            )
            texts: dict[str, object] = {}
            async for step in with_heartbeat(self._comparisons.compare(request, evidence=evidence)):
                if step is not None and step.document is not None:
                    yield step.document.as_json()
                    return
                if step is not None:
                    texts = {side.value: answer.text for side, answer in step.update.answers.items()}
                yield texts
        except MyServeError as error:
            raise gr.Error(error.message, duration=None, print_exception=False) from None

    async def fidelity(
        self,
        text: str,
        base: str = "",
        candidate: str = "",
        window: int | None = None,
        stride: int | None = None,
        tokens: bool = False,
    ) -> AsyncGenerator[dict[str, object], None]:
        """Score a text by two precisions. Streams the progress; the last value is the report.

        text: 2 to 16384 tokens. base, candidate: as in /compare. window, stride: how the text is cut; every token is
        scored once. tokens: whether the report has every token's own numbers. The report has both perplexities with
        standard errors, their paired ln ratio, KLD (nats), delta p, same top token, memory, speed.
        """
        request = FidelityRequest(text, base=base, candidate=candidate, window=window, stride=stride)
        try:
            _check_texts(text=text, base=base, candidate=candidate)
            _check_choice("tokens", tokens)
            async for result in _results(self._comparisons.report(request), with_tokens=tokens):
                yield result
        except MyServeError as error:
            raise gr.Error(error.message, duration=None, print_exception=False) from None

    async def perplexity(
        self, text: str, model: str = "", window: int | None = None, stride: int | None = None, tokens: bool = False
    ) -> AsyncGenerator[dict[str, object], None]:
        """Perplexity of one model on a text. Streams the progress; the last value is the result.

        text: 2 to 16384 tokens. model: an id of /models or a precision of the default model, empty for the default.
        window, stride: how the text is cut; every token is scored once. tokens: whether the result has every token's
        loss.
        """
        request = FidelityRequest(text, base=model, window=window, stride=stride)
        try:
            _check_texts(text=text, model=model)
            _check_choice("tokens", tokens)
            async for result in _results(self._comparisons.perplexity(request), with_tokens=tokens):
                yield result
        except MyServeError as error:
            raise gr.Error(error.message, duration=None, print_exception=False) from None


async def _results(
    steps: AsyncGenerator[Progress[R], None], *, with_tokens: bool
) -> AsyncGenerator[dict[str, object], None]:
    """The progress as small dicts, repeated while nothing happens; then the document."""
    progress: dict[str, object] = {"tokens_done": 0, "tokens_total": 0}
    async for step in with_heartbeat(steps):
        if step is not None and step.document is not None:
            yield (step.document if with_tokens else step.document.without_tokens()).as_json()
            return
        if step is not None:
            progress = {"tokens_done": step.tokens_done, "tokens_total": step.tokens_total}
        yield progress
    raise GenerationFailedError("The measurement ended early. Ask again.")


def _check_texts(**given: object) -> None:
    """Gradio hands on whatever JSON a client sends. Raises InvalidRequestError."""
    for name, value in given.items():
        if not isinstance(value, str):
            raise InvalidRequestError(f"{name} must be a text, got {value!r:.40}.", param=name)


def _check_choice(name: str, value: object) -> None:
    if not isinstance(value, bool):
        raise InvalidRequestError(f"{name} must be true or false, got {value!r:.40}.", param=name)


def _timing(value: str) -> Timing:
    try:
        return Timing(value)
    except ValueError:
        choices = ", ".join(repr(timing.value) for timing in Timing)
        raise InvalidRequestError(f"timing must be one of {choices}, got {value!r:.40}.", param="timing") from None
