"""Two answers to one prompt, token by token: where they part, how sure each model was, and what decided."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import torch

from myserve_ui.evaluation.comparison_document import AnswerToken, Evidence, LikelyToken, Split
from myserve_ui.evaluation.documents import Both
from myserve_ui.evaluation.scoring import TokenScores, collect_logits, measure_noise, score_tokens
from myserve_ui.serving.engine_pool import RunningEngine
from myserve_ui.serving.step_loop import on_own_thread

Decode = Callable[[Sequence[int]], str]
TOP = 5
HORIZONS = (32, 64, 128)
"""The share of identical tokens is told for the first so many."""
NOISE_MARGIN = 2.0
"""A lead within so many times the noise floor is a tie: each of two log-probabilities may be off by it."""


class Verdict(StrEnum):
    IDENTICAL = "identical"
    TIE = "a tie within numerical noise"
    UNDECIDED = "undecided, the numerical noise could not be measured"
    CHANGED = "quantisation changed the choice"
    OTHER_MODEL = "the two models chose differently"
    DRAWN = "drawn differently from shifted probabilities"


@dataclass(frozen=True, slots=True)
class AnswerPair:
    """Two answers of ids to the same prompt."""

    prompt: Sequence[int]
    base: Sequence[int]
    candidate: Sequence[int]
    greedy: bool = True


async def explain(base: RunningEngine, candidate: RunningEngine, answers: AnswerPair) -> Evidence:
    """Both answers scored by both models, the split, the noise floor, a verdict.

    Both answers go through the models once each. Raises what scoring raises; an empty answer has no tokens.
    """
    noise = await _noise_floor(base, answers)
    scores = [await _score_answer(base, candidate, answers.prompt, ids) for ids in (answers.base, answers.candidate)]
    decode = base.loaded.tokenizer.decode
    return Evidence(
        base=base.info.id,
        candidate=candidate.info.id,
        noise_floor=noise,
        identical_share={str(n): share for n in HORIZONS if (share := _identical_share(answers, n)) is not None},
        split=await _explain_split(base, candidate, answers, noise),
        answers=Both(
            base=_tokens(scores[0], answers.base, decode), candidate=_tokens(scores[1], answers.candidate, decode)
        ),
    )


def find_split(first: Sequence[int], second: Sequence[int]) -> int | None:
    """Index of the first token at which two answers differ, the end of the shorter one if it is all they share."""
    for index, (a, b) in enumerate(zip(first, second, strict=False)):
        if a != b:
            return index
    return None if len(first) == len(second) else min(len(first), len(second))


def judge(margin: float, noise: float | None, *, greedy: bool, is_one_model: bool = True) -> Verdict:
    """What decided at the split: `margin` is the base's log-probability lead of its own token over the candidate's.

    Without a `noise` floor that was measured, a lead may be rounding or not.
    """
    if margin <= NOISE_MARGIN * (noise or 0.0):
        return Verdict.TIE
    if noise is None and greedy:
        return Verdict.UNDECIDED
    if not greedy:
        return Verdict.DRAWN
    return Verdict.CHANGED if is_one_model else Verdict.OTHER_MODEL


async def _score_answer(
    base: RunningEngine, candidate: RunningEngine, prompt: Sequence[int], answer: Sequence[int]
) -> TokenScores | None:
    if not answer:
        return None
    ids = [*prompt, *answer]
    logits = [await collect_logits(engine, ids, first_scored=len(prompt)) for engine in (base, candidate)]
    return await on_own_thread(score_tokens, logits[0], logits[1], answer)


async def _noise_floor(base: RunningEngine, answers: AnswerPair) -> float | None:
    """Largest difference that rounding alone makes to the log-probability of a likely token of the base's answer.

    None if it could not be measured: see measure_noise.
    """
    if not answers.base:
        return 0.0
    ids = [*answers.prompt, *answers.base]
    noise = await measure_noise(base, ids, first_scored=len(answers.prompt))
    return None if noise is None else float(noise.max_difference.max())


async def _explain_split(
    base: RunningEngine, candidate: RunningEngine, answers: AnswerPair, noise: float | None
) -> Split | None:
    index = find_split(answers.base, answers.candidate)
    if index is None or index >= min(len(answers.base), len(answers.candidate)):
        return None
    context = [*answers.prompt, *answers.base[: index + 1]]
    rows = [await collect_logits(engine, context, first_scored=len(context) - 1) for engine in (base, candidate)]
    logs = [torch.log_softmax(row[0].float(), dim=-1) for row in rows]
    margin = float(logs[0][answers.base[index]] - logs[0][answers.candidate[index]])
    decode = base.loaded.tokenizer.decode
    is_one_model = base.info.name == candidate.info.name
    return Split(
        index=index,
        base_token=decode([answers.base[index]]),
        candidate_token=decode([answers.candidate[index]]),
        margin=margin,
        verdict=judge(margin, noise, greedy=answers.greedy, is_one_model=is_one_model).value,
        top=Both(base=_likeliest(logs[0], decode), candidate=_likeliest(logs[1], decode)),
    )


def _likeliest(logprobs: torch.Tensor, decode: Decode) -> tuple[LikelyToken, ...]:
    values, ids = logprobs.topk(TOP)
    return tuple(
        LikelyToken(id=token_id, text=decode([token_id]), p=p)
        for token_id, p in zip(ids.tolist(), values.exp().tolist(), strict=True)
    )


def _identical_share(answers: AnswerPair, horizon: int) -> float | None:
    """Share of the first `horizon` places at which both answers have the same token; None if neither is that long."""
    if max(len(answers.base), len(answers.candidate)) < horizon:
        return None
    pairs = zip(answers.base[:horizon], answers.candidate[:horizon], strict=False)
    return sum(a == b for a, b in pairs) / horizon


def _tokens(scores: TokenScores | None, ids: Sequence[int], decode: Decode) -> tuple[AnswerToken, ...]:
    """One entry for each token of an answer: its probability and rank in both models, and how far they are apart."""
    if scores is None:
        return ()
    columns = {
        "p_base": (-scores.nll_base).exp(),
        "p_candidate": (-scores.nll_candidate).exp(),
        "rank_base": scores.base_rank,
        "rank_candidate": scores.candidate_rank,
        "kld": scores.kld,
        "delta_p": scores.delta_p,
        "same_top": scores.same_top,
    }
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    return tuple(
        AnswerToken(id=token_id, text=decode([token_id]), **dict(zip(columns, row, strict=True)))
        for token_id, row in zip(ids, rows, strict=True)
    )
