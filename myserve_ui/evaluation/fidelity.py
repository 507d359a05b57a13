"""What a cheaper precision costs on a text: perplexity, divergence and agreement against the base, as one document."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import torch

from myserve_ui.core.tokenizer import Tokenizer
from myserve_ui.errors import InvalidRequestError, OverloadedError
from myserve_ui.evaluation.comparison_document import Evidence
from myserve_ui.evaluation.documents import (
    Both,
    FidelityReport,
    Measurement,
    PerplexityReport,
    Rate,
    ScoredToken,
    ScoringSpeed,
    TokenLoss,
    circumstances,
    memory_of,
)
from myserve_ui.evaluation.evidence import AnswerPair, explain
from myserve_ui.evaluation.plain_words import caveats
from myserve_ui.evaluation.scoring import TokenScores, collect_logits, join_scores, score_tokens
from myserve_ui.evaluation.statistics import delta_p_of, mean_of, perplexity, share_of, spread_of
from myserve_ui.evaluation.windows import MAX_WINDOW, Window, fit_window, make_windows
from myserve_ui.serving.compare_service import Side
from myserve_ui.serving.engine_pool import EnginePool, RunningEngine
from myserve_ui.serving.model_names import naming_side
from myserve_ui.serving.request_checks import check_encoded_ids
from myserve_ui.serving.step_loop import on_own_thread

D = TypeVar("D", bound=Measurement)

MAX_TOKENS = 16_384
"""Some ten minutes of a small CPU; a longer text adds little certainty."""


@dataclass(frozen=True, slots=True)
class FidelityRequest:
    """Score `text` by two precisions of one model. Equal names compare a model with itself."""

    text: str
    base: str = ""
    candidate: str = ""
    window: int | None = None
    """Tokens that are read together; None: DEFAULT_WINDOW, as far as the contexts have room."""
    stride: int | None = None
    """Tokens from one window's end to the next; None: DEFAULT_STRIDE, or half of a shorter window."""


@dataclass(frozen=True, slots=True)
class Progress(Generic[D]):
    """How far a report is. The last one carries the document."""

    tokens_done: int
    tokens_total: int
    document: D | None = None


@dataclass(slots=True)
class _Run:
    """What a report gathers."""

    request: FidelityRequest
    base: RunningEngine
    candidate: RunningEngine
    token_ids: list[int]
    window: int
    stride: int
    scores: list[TokenScores] = field(default_factory=list)
    started: float = field(default_factory=time.monotonic)
    tokens_read: int = 0
    """Tokens of all windows, context included: what each model computed."""
    seconds: dict[Side, float] = field(default_factory=dict)
    """Spent by each model on them."""


class FidelityService:
    """Makes reports, one at a time, and evidence, through the engines that serve users."""

    def __init__(self, pool: EnginePool) -> None:
        self._pool = pool
        self._one_report = asyncio.Lock()

    async def report(self, request: FidelityRequest) -> AsyncGenerator[Progress[FidelityReport], None]:
        """Progress, window by window, and at the end the document.

        Loads what is not loaded. Raises InvalidRequestError for a text that is too short or too long, windows out of
        range, or models that read text differently; OverloadedError while another report runs; ModelLoadError.
        """
        if self._one_report.locked():
            raise OverloadedError("Another fidelity report is running; wait for it, or stop it.")
        async with self._one_report:
            run = await self._open(request)
            windows = make_windows(len(run.token_ids), window=run.window, stride=run.stride)
            done, total = 0, len(run.token_ids) - 1
            for window in windows:
                yield Progress(done, total)
                run.scores.append(await _score_window(run, window))
                done += window.num_scored
            yield Progress(done, total, await on_own_thread(_document, run))

    async def explain(self, base: str, candidate: str, answers: AnswerPair) -> Evidence:
        """Evidence on two answers; loads what is not loaded. See evidence.explain.

        Raises InvalidRequestError for models that do not share a vocabulary.
        """
        engines = await self._loaded(base), await self._loaded(candidate)
        await _check_vocabularies(*engines)
        return await explain(*engines, answers)

    async def _open(self, request: FidelityRequest) -> _Run:
        with naming_side(Side.BASE):
            base = await self._loaded(request.base)
        with naming_side(Side.CANDIDATE):
            candidate = await self._loaded(request.candidate)
        longest = min(MAX_WINDOW, base.max_model_len, candidate.max_model_len)
        window, stride = fit_window(request.window, request.stride, longest=longest)
        await _check_vocabularies(base, candidate)
        ids = await asyncio.to_thread(base.loaded.tokenizer.encode, request.text)
        if ids != await asyncio.to_thread(candidate.loaded.tokenizer.encode, request.text):
            raise _different_tokens(base, candidate)
        for engine in (base, candidate):
            check_encoded_ids(ids, engine.loaded, "text")
        if len(ids) > MAX_TOKENS:
            raise InvalidRequestError(
                f"The text has {len(ids)} tokens and a report takes at most {MAX_TOKENS}; send a shorter one.",
                param="text",
            )
        return _Run(request, base, candidate, ids, window=window, stride=stride)

    async def _loaded(self, name: str) -> RunningEngine:
        async for _progress in self._pool.load(name):
            pass
        return self._pool.engine(name)


async def _score_window(run: _Run, window: Window) -> TokenScores:
    """One model after the other; a model that is compared with itself computes once."""
    ids = run.token_ids[window.start : window.end]
    first = window.first_scored - window.start
    run.tokens_read += len(ids)
    logits: list[torch.Tensor] = []
    for side, engine in {Side.BASE: run.base, Side.CANDIDATE: run.candidate}.items():
        if side is Side.CANDIDATE and engine is run.base:
            logits.append(logits[0])
            continue
        started = time.monotonic()
        logits.append(await collect_logits(engine, ids, first_scored=first))
        run.seconds[side] = run.seconds.get(side, 0.0) + time.monotonic() - started
    return await on_own_thread(score_tokens, logits[0], logits[1], ids[first:])


async def _check_vocabularies(base: RunningEngine, candidate: RunningEngine) -> None:
    """Raise InvalidRequestError unless each id is the same text to both, so that their probabilities are of one thing.

    Precisions of one model share a tokenizer; of two models every id is looked at.
    """
    first, second = base.loaded.tokenizer, candidate.loaded.tokenizer
    if first.vocab_size != second.vocab_size:
        raise _different_tokens(base, candidate)
    if base.info.name != candidate.info.name and await asyncio.to_thread(_words, first) != await asyncio.to_thread(
        _words, second
    ):
        raise _different_tokens(base, candidate)


def _words(tokenizer: Tokenizer) -> list[bytes] | list[str]:
    """What each id stands for, in bytes or, for a tokenizer that does not tell those, as it decodes alone."""
    try:
        return list(tokenizer.token_bytes())
    except InvalidRequestError:
        return [tokenizer.decode([token_id]) for token_id in range(tokenizer.vocab_size)]


def _different_tokens(base: RunningEngine, candidate: RunningEngine) -> InvalidRequestError:
    return InvalidRequestError(
        f"{base.info.id} and {candidate.info.id} read text as different tokens, so their scores cannot be compared; "
        "choose two precisions of one model.",
        param="candidate",
    )


def _document(run: _Run) -> FidelityReport:
    scores = join_scores(run.scores)
    base, candidate = run.base, run.candidate
    return FidelityReport(
        **circumstances(),
        base=base.info.id,
        candidate=candidate.info.id,
        model=base.info.name,
        text_sha256=hashlib.sha256(run.request.text.encode()).hexdigest(),
        tokens_scored=len(scores),
        window=run.window,
        stride=run.stride,
        bos=run.token_ids[0] == base.loaded.bos_token_id,
        percentile_method="nearest rank",
        perplexity=Both(base=perplexity(scores.nll_base), candidate=perplexity(scores.nll_candidate)),
        ln_ratio=mean_of(scores.nll_candidate - scores.nll_base),
        kld=spread_of(scores.kld),
        delta_p=delta_p_of(scores.delta_p),
        same_top=share_of(scores.same_top),
        top_overlap=mean_of(scores.overlap),
        memory=Both(
            base=memory_of(base.info, base.loaded.memory),
            candidate=memory_of(candidate.info, candidate.loaded.memory),
        ),
        speed=_speed(run),
        notes=tuple(caveats(base.info, candidate.info)),
        tokens=_tokens(run, scores),
    )


def _speed(run: _Run) -> ScoringSpeed:
    rates = {side: Rate(scoring_tokens_per_second=run.tokens_read / spent) for side, spent in run.seconds.items()}
    return ScoringSpeed(
        seconds=time.monotonic() - run.started, base=rates.get(Side.BASE), candidate=rates.get(Side.CANDIDATE)
    )


def _tokens(run: _Run, scores: TokenScores) -> tuple[ScoredToken, ...]:
    """Each scored token with its own numbers."""
    decode = run.base.loaded.tokenizer.decode
    columns = {
        "nll_base": scores.nll_base,
        "nll_candidate": scores.nll_candidate,
        "kld": scores.kld,
        "delta_p": scores.delta_p,
        "base_rank": scores.base_rank,
        "same_top": scores.same_top,
    }
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    return tuple(
        ScoredToken(id=token_id, text=decode([token_id]), **dict(zip(columns, row, strict=True)))
        for token_id, row in zip(run.token_ids[1:], rows, strict=True)
    )


def perplexity_of(report: FidelityReport) -> PerplexityReport:
    """What a report of a model against itself says of that model."""
    return PerplexityReport(
        made=report.made,
        versions=report.versions,
        machine=report.machine,
        model=report.base,
        text_sha256=report.text_sha256,
        tokens_scored=report.tokens_scored,
        window=report.window,
        stride=report.stride,
        bos=report.bos,
        perplexity=report.perplexity.base,
        memory=report.memory.base,
        speed=report.speed,
        tokens=tuple(TokenLoss(id=token.id, text=token.text, nll=token.nll_base) for token in report.tokens),
    )
