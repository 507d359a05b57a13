"""Two answers to one prompt as one JSON document: what was asked, what came, what it took, and what decided."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from myserve_ui.core.model_info import ModelInfo
from myserve_ui.core.outputs import FinishReason, RequestOutput
from myserve_ui.documents import Flag, Number, Part, Whole
from myserve_ui.evaluation.documents import Both, Measurement, Memory, circumstances
from myserve_ui.evaluation.plain_words import caveats, memory_words, speed_words
from myserve_ui.serving.compare_service import CompareRequest, CompareUpdate, Side, SideAnswer, Timing


class ComparisonSettings(Part):
    timing: str
    temperature: Number | None
    top_p: Number | None
    seed: Whole | None
    max_tokens: Whole | None


class SaidMessage(Part):
    role: str
    content: str


class AnswerUsage(Part):
    prompt_tokens: Whole
    completion_tokens: Whole


class AnswerSpeed(Part):
    ttft: Number | None
    tpot: Number | None
    tokens_per_second: Number | None


class Answer(Part):
    """What one side wrote, or why it did not."""

    model: str
    text: str
    token_ids: tuple[Whole, ...]
    prompt_token_ids: tuple[Whole, ...]
    finish_reason: str | None
    error: str | None
    usage: AnswerUsage | None
    speed: AnswerSpeed | None


class LikelyToken(Part):
    id: Whole
    text: str
    p: Number


class Split(Part):
    """The first place at which two answers differ."""

    index: Whole
    base_token: str
    candidate_token: str
    margin: Number
    """The base's log-probability lead of its own token over the candidate's."""
    verdict: str
    top: Both[tuple[LikelyToken, ...]]


class AnswerToken(Part):
    """A token of an answer under both models."""

    id: Whole
    text: str
    p_base: Number
    p_candidate: Number
    rank_base: Whole
    """0 if it is the model's likeliest."""
    rank_candidate: Whole
    kld: Number
    delta_p: Number
    same_top: Flag


class Evidence(Part):
    """Two answers scored by both models."""

    kind: Literal["evidence"] = "evidence"
    base: str
    candidate: str
    noise_floor: Number | None
    """How far rounding alone moves a log-probability; None if that could not be measured."""
    identical_share: dict[str, Number]
    """Of the first so many tokens."""
    split: Split | None
    answers: Both[tuple[AnswerToken, ...]]


class Comparison(Measurement):
    NAME: ClassVar[str] = "comparison"

    kind: Literal["compare"] = "compare"
    base: str
    candidate: str
    settings: ComparisonSettings
    messages: tuple[SaidMessage, ...]
    answers: Both[Answer]
    memory: Both[Memory]
    measured: tuple[str, ...]
    """What this very run says, in sentences."""
    notes: tuple[str, ...]
    evidence: Evidence | None
    no_evidence_because: str | None


def make_comparison(
    request: CompareRequest,
    update: CompareUpdate,
    infos: Mapping[Side, ModelInfo],
    *,
    memory: Both[Memory],
    evidence: Evidence | str,
) -> Comparison:
    """The document of a comparison that has ended; in place of `evidence` there may be the reason why there is none."""
    answers = Both(base=_answer(update.answers[Side.BASE]), candidate=_answer(update.answers[Side.CANDIDATE]))
    params = request.chat.params
    return Comparison(
        **circumstances(),
        base=answers.base.model,
        candidate=answers.candidate.model,
        settings=ComparisonSettings(
            timing=request.timing.value,
            temperature=params.temperature,
            top_p=params.top_p,
            seed=params.seed,
            max_tokens=params.max_tokens or request.chat.default_max_tokens,
        ),
        messages=tuple(SaidMessage(role=one.role, content=one.content) for one in request.chat.messages),
        answers=answers,
        memory=memory,
        measured=_measured(answers, memory, alone=request.timing is Timing.IN_TURN),
        notes=tuple(caveats(infos[Side.BASE], infos[Side.CANDIDATE])),
        evidence=None if isinstance(evidence, str) else evidence,
        no_evidence_because=evidence if isinstance(evidence, str) else None,
    )


def _answer(answer: SideAnswer) -> Answer:
    latest = answer.latest
    return Answer(
        model=answer.model,
        text=answer.text,
        token_ids=answer.token_ids,
        prompt_token_ids=answer.prompt_token_ids,
        finish_reason=latest.finish_reason.value if latest and latest.finish_reason else None,
        error=answer.error,
        usage=_usage(latest) if latest else None,
        speed=_speed(latest) if latest and latest.finish_reason is not FinishReason.ERROR else None,
    )


def _usage(latest: RequestOutput) -> AnswerUsage:
    return AnswerUsage(prompt_tokens=latest.usage.prompt_tokens, completion_tokens=latest.usage.completion_tokens)


def _speed(latest: RequestOutput) -> AnswerSpeed:
    timings = latest.timings
    return AnswerSpeed(ttft=timings.ttft, tpot=timings.tpot, tokens_per_second=timings.tokens_per_second)


def _measured(answers: Both[Answer], memory: Both[Memory], *, alone: bool) -> tuple[str, ...]:
    """What this very run says, in sentences."""
    speeds = [answer.speed.tokens_per_second if answer.speed else None for answer in (answers.base, answers.candidate)]
    words = (speed_words(speeds[0], speeds[1], alone=alone), memory_words(memory))
    return tuple(sentence for sentence in words if sentence)
