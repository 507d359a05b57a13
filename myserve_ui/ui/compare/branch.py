""" "Continue from here with the other model": an answer's first tokens as they are, the rest from the other side."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

import gradio as gr
from markupsafe import Markup

from myserve_ui.core.model_info import ModelInfo
from myserve_ui.core.outputs import RequestOutput
from myserve_ui.core.requests import CompletionRequest
from myserve_ui.core.sampling_params import SamplingParams
from myserve_ui.errors import InvalidRequestError, MyServeError
from myserve_ui.evaluation.comparison_document import Comparison
from myserve_ui.serving.chat_service import ChatService
from myserve_ui.serving.compare_service import Side
from myserve_ui.ui.compare.panes import stopped
from myserve_ui.ui.compare.run import RunParts
from myserve_ui.ui.shared.events import QUIET, UNEXPECTED, Updates, problem, wire_stop
from myserve_ui.ui.shared.streams import frames, with_heartbeat
from myserve_ui.ui.shared.templates import render
from myserve_ui.ui.shared.words import answer_line, model_label, progress_line

logger = logging.getLogger(__name__)

SIDE_CHOICES = [("the base's answer", Side.BASE.value), ("the candidate's answer", Side.CANDIDATE.value)]
NOTHING = "There is no comparison to branch from yet. Compare two answers first."
OTHER_TOKENS = (
    "The other model did not read the prompt as the same tokens, so it cannot go on from a token of this answer."
)


@dataclass(frozen=True, slots=True)
class Branch:
    """What the other model is given, and what the reader sees of it."""

    model: str
    prompt: tuple[int, ...]
    kept: tuple[int, ...]
    params: SamplingParams


class BranchPanel:
    """A row below the evidence; choosing a chip fills it. Holds nothing of any visitor."""

    def __init__(self, chat: ChatService, run: RunParts) -> None:
        self._chat = chat
        self._run = run

    def draw(self) -> None:
        """Draw into the open layout and wire."""
        with gr.Row(visible=False, elem_id="branch") as self._row:
            self._side = gr.Radio(
                SIDE_CHOICES, value=Side.BASE.value, label="Keep the beginning of", elem_id="branch-side"
            )
            self._token = gr.Number(1, precision=0, minimum=1, label="Continue at token", elem_id="branch-token")
            self._start = gr.Button("Continue with the other model", elem_id="branch-start", scale=0, min_width=270)
            self._stop = gr.Button("Stop", variant="stop", visible=False, elem_id="branch-stop", scale=0, min_width=90)
        self._answer = gr.HTML("", elem_id="branch-answer", padding=False)
        self._wire()

    def _wire(self) -> None:
        inputs = {self._run.document, self._side, self._token}
        shown = [self._answer, self._start, self._stop]
        branch = self._start.click(self.on_start, inputs, shown, concurrency_limit=None, trigger_mode="once", **QUIET)
        wire_stop(self._stop, branch, self.on_stop, inputs=self._answer, outputs=shown)
        self._run.findings.select(self.on_choose, None, [self._side, self._token], queue=False, **QUIET)
        self._run.document.change(self.on_document, self._run.document, [self._row, self._answer], queue=False, **QUIET)

    def on_document(self, document: Any) -> Updates:
        """A row to branch with while there is something to branch from."""
        can_branch = bool(document) and why_no_branch(_comparison(document)) is None
        return {self._row: gr.update(visible=can_branch), self._answer: ""}

    def on_choose(self, event: gr.SelectData) -> Updates:
        """A chip was chosen: its side and its place, counted from 1."""
        if event.value not in tuple(Side):
            return {}
        return {self._side: event.value, self._token: int(event.index) + 1}

    def on_stop(self, html: str | None) -> Updates:
        return self._buttons(running=False) | {self._answer: stopped(html or "")}

    async def on_start(self, inputs: Mapping[Any, Any]) -> AsyncGenerator[Updates, None]:
        try:
            branch = read_branch(inputs[self._run.document], inputs[self._side], inputs[self._token])
            yield self._buttons(running=True) | {self._answer: ""}
            async with aclosing(self._frames(branch)) as updates:
                async for update in updates:
                    yield update
            yield self._buttons(running=False)
        except MyServeError as error:
            yield self._buttons(running=False) | {self._answer: problem(error.message)}
        except Exception:
            logger.exception("a branch failed")
            yield self._buttons(running=False) | {self._answer: problem(UNEXPECTED)}

    async def _frames(self, branch: Branch) -> AsyncGenerator[Updates, None]:
        async with aclosing(with_heartbeat(_loaded(self._chat, branch.model))) as loading:
            async for _ in loading:
                yield {self._stop: gr.skip()}
        kept = await self._chat.detokenize(branch.kept, branch.model)
        request = CompletionRequest(
            (*branch.prompt, *branch.kept),
            model=branch.model,
            params=replace(branch.params, max_tokens=None),
            default_max_tokens=branch.params.max_tokens or 1,  # the answer's own, which was not asked of the branch
        )
        async with await self._chat.start_completion(request) as stream, aclosing(frames(stream)) as outputs:
            async for text, output in outputs:
                yield {self._answer: branch_view(branch, stream.model, kept, text, output)}

    def _buttons(self, *, running: bool) -> Updates:
        return {self._start: gr.update(visible=not running), self._stop: gr.update(visible=running)}


async def _loaded(chat: ChatService, model: str) -> AsyncGenerator[object, None]:
    async for progress in chat.load(model):
        yield progress


def read_branch(file: Any, side: Any, token: Any) -> Branch:
    """The branch that the page asks for; `file` is a comparison as the page holds it.

    Raises InvalidRequestError for a page without one, models of other tokens, or a token outside the answer.
    """
    document, side = _comparison(file), Side(side)
    if (reason := why_no_branch(document)) is not None:
        raise InvalidRequestError(reason)
    answer, other = document.answers.of(side), document.answers.of(side.other)
    kept, settings = answer.token_ids, document.settings
    if not isinstance(token, int | float) or not 1 <= token <= len(kept):
        raise InvalidRequestError(f"Continue at a token from 1 to {len(kept)}, the length of that answer.")
    params = SamplingParams(temperature=settings.temperature, seed=settings.seed, max_tokens=settings.max_tokens)
    return Branch(other.model, answer.prompt_token_ids, kept[: int(token) - 1], params)


def why_no_branch(document: Comparison) -> str | None:
    """Why no model can go on with the other's tokens; None if each can. Precisions of one model always can."""
    answers = [document.answers.of(side) for side in Side]
    precisions = [document.memory.of(side).precision for side in Side]
    names = {answer.model.removesuffix(f":{of}") for answer, of in zip(answers, precisions, strict=True)}
    if len(names) == 1:
        return None
    if answers[0].prompt_token_ids != answers[1].prompt_token_ids:
        return OTHER_TOKENS
    return document.no_evidence_because if document.evidence is None else None


def branch_view(branch: Branch, model: ModelInfo, kept: str, text: str, output: RequestOutput) -> Markup:
    """HTML of a branch: what was kept, and what the other model wrote from there."""
    is_done = output.finish_reason is not None
    return render(
        "compare/branch",
        is_done=is_done,
        model=model_label(model),
        first_token=len(branch.kept) + 1,
        words=output.error or answer_line(output) if is_done else progress_line(output),
        kept=kept,
        text=text,
    )


def _comparison(file: Any) -> Comparison:
    try:
        return Comparison.read(file["text"])
    except (KeyError, TypeError, InvalidRequestError):
        raise InvalidRequestError(NOTHING) from None
