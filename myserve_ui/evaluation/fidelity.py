"""What a cheaper precision costs on a text: perplexity, divergence and agreement against the base, as one document."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncGenerator
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from myserve_ui.core.memory_report import MemoryReport
from myserve_ui.core.model_info import ModelInfo
from myserve_ui.errors import InvalidRequestError, OverloadedError
from myserve_ui.evaluation.circumstances import describe_circumstances
from myserve_ui.evaluation.evidence import AnswerPair, explain
from myserve_ui.evaluation.plain_words import caveats
from myserve_ui.evaluation.scoring import collect_logits
from myserve_ui.evaluation.statistics import estimate, percentiles, perplexity
from myserve_ui.evaluation.token_scores import TokenScores, join_scores, score_tokens
from myserve_ui.evaluation.windows import MAX_WINDOW, Window, fit_window, make_windows
from myserve_ui.serving.engine_pool import EnginePool, RunningEngine
from myserve_ui.serving.model_names import naming_side
from myserve_ui.serving.request_checks import check_encoded_ids
from myserve_ui.serving.step_loop import on_own_thread

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
class FidelityProgress:
    """How far a report is. The last one carries the document."""

    tokens_done: int
    tokens_total: int
    document: dict[str, Any] | None = None


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
    seconds: dict[str, float] = field(default_factory=dict)
    """Spent by each model on them."""


class FidelityService:
    """Makes reports, one at a time, and evidence, through the engines that serve users."""

    def __init__(self, pool: EnginePool) -> None:
        self._pool = pool
        self._one_report = asyncio.Lock()

    async def report(self, request: FidelityRequest) -> AsyncGenerator[FidelityProgress, None]:
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
                yield FidelityProgress(done, total)
                run.scores.append(await _score_window(run, window))
                done += window.num_scored
            yield FidelityProgress(done, total, await on_own_thread(_document, run))

    async def explain(self, base: str, candidate: str, answers: AnswerPair) -> dict[str, Any]:
        """Evidence on two answers; loads what is not loaded. See evidence.explain for the document.

        Raises InvalidRequestError for models that do not share a vocabulary.
        """
        engines = await self._loaded(base), await self._loaded(candidate)
        _check_vocabularies(*engines)
        return await explain(*engines, answers)

    async def _open(self, request: FidelityRequest) -> _Run:
        with naming_side("base"):
            base = await self._loaded(request.base)
        with naming_side("candidate"):
            candidate = await self._loaded(request.candidate)
        longest = min(MAX_WINDOW, base.max_model_len, candidate.max_model_len)
        window, stride = fit_window(request.window, request.stride, longest=longest)
        _check_vocabularies(base, candidate)
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
    for side, engine in {"base": run.base, "candidate": run.candidate}.items():
        if side == "candidate" and engine is run.base:
            logits.append(logits[0])
            continue
        started = time.monotonic()
        logits.append(await collect_logits(engine, ids, first_scored=first))
        run.seconds[side] = run.seconds.get(side, 0.0) + time.monotonic() - started
    return await on_own_thread(score_tokens, logits[0], logits[1], ids[first:])


def _check_vocabularies(base: RunningEngine, candidate: RunningEngine) -> None:
    if base.loaded.tokenizer.vocab_size != candidate.loaded.tokenizer.vocab_size:
        raise _different_tokens(base, candidate)


def _different_tokens(base: RunningEngine, candidate: RunningEngine) -> InvalidRequestError:
    return InvalidRequestError(
        f"{base.info.id} and {candidate.info.id} read text as different tokens, so their scores cannot be compared; "
        "choose two precisions of one model.",
        param="candidate",
    )


def _document(run: _Run) -> dict[str, Any]:
    """The report as JSON has it; shares are in 0..1, divergence and losses in nats."""
    scores = join_scores(run.scores)
    return {
        "kind": "fidelity",
        **describe_circumstances(),
        "base": run.base.info.id,
        "candidate": run.candidate.info.id,
        "model": run.base.info.name,
        "text_sha256": hashlib.sha256(run.request.text.encode()).hexdigest(),
        "tokens_scored": len(scores),
        "window": run.window,
        "stride": run.stride,
        "bos": run.token_ids[0] == run.base.loaded.bos_token_id,
        "percentile_method": "nearest rank",
        **summarise(scores),
        "memory": {
            side: memory_of(engine.info, engine.loaded.memory)
            for side, engine in (("base", run.base), ("candidate", run.candidate))
        },
        "speed": {
            "seconds": time.monotonic() - run.started,
            **{side: {"scoring_tokens_per_second": run.tokens_read / spent} for side, spent in run.seconds.items()},
        },
        "notes": caveats(run.base.info, run.candidate.info),
        "tokens": _token_rows(run, scores),
    }


def summarise(scores: TokenScores) -> dict[str, Any]:
    """The numbers of a report, each with how sure it is."""
    delta_p = scores.delta_p
    return {
        "perplexity": {
            "base": asdict(perplexity(scores.nll_base)),
            "candidate": asdict(perplexity(scores.nll_candidate)),
        },
        "ln_ratio": _mean_and_se(scores.nll_candidate - scores.nll_base),
        "kld": _mean_and_se(scores.kld) | percentiles(scores.kld),
        "delta_p": _mean_and_se(delta_p) | percentiles(delta_p) | {"rms": delta_p.square().mean().sqrt().item()},
        "same_top": {"share": estimate(scores.same_top.float()).value, "se": estimate(scores.same_top.float()).se},
        "top_overlap": _mean_and_se(scores.overlap),
    }


def memory_of(info: ModelInfo, weights: MemoryReport | None = None) -> dict[str, Any]:
    """What a model's weights and cache take; `weights` adds what is in how many bits."""
    detail = {
        "bits_per_quantized_parameter": weights.bits_per_quantized_parameter if weights else None,
        "bytes_by_format": weights.bytes_by_format() if weights else None,
    }
    return {
        "precision": info.precision,
        "dtype": info.dtype,
        "device": info.device,
        "weight_bytes": info.weight_bytes,
        "num_parameters": info.num_parameters,
        "bits_per_parameter": info.bits_per_parameter,
        "kv_bytes_per_token": info.kv_bytes_per_token,
        **detail,
    }


def _mean_and_se(values: torch.Tensor) -> dict[str, float]:
    mean = estimate(values)
    return {"mean": mean.value, "se": mean.se}


def _token_rows(run: _Run, scores: TokenScores) -> list[dict[str, Any]]:
    """Each scored token with its own numbers."""
    decode = run.base.loaded.tokenizer.decode
    columns = zip(
        run.token_ids[1:],
        scores.nll_base.tolist(),
        scores.nll_candidate.tolist(),
        scores.kld.tolist(),
        scores.delta_p.tolist(),
        scores.base_rank.tolist(),
        scores.same_top.tolist(),
        strict=True,
    )
    names = ("id", "nll_base", "nll_candidate", "kld", "delta_p", "base_rank", "same_top")
    return [{"text": decode([row[0]]), **dict(zip(names, row, strict=True))} for row in columns]
