"""What every door asks about two models: answers side by side with evidence, fidelity and perplexity reports."""

from __future__ import annotations

import platform
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, replace

import torch

from myserve_ui.core.memory_report import MemoryReport
from myserve_ui.core.model_info import ModelInfo
from myserve_ui.core.sampling_params import SamplingDefaults
from myserve_ui.errors import InvalidRequestError, MyServeError
from myserve_ui.evaluation.comparison_document import Comparison, Evidence, make_comparison
from myserve_ui.evaluation.documents import Both, FidelityReport, Memory, PerplexityReport, memory_of
from myserve_ui.evaluation.evidence import AnswerPair
from myserve_ui.evaluation.fidelity import FidelityRequest, FidelityService, Progress, perplexity_of
from myserve_ui.serving.chat_service import ChatService
from myserve_ui.serving.compare_service import CompareRequest, CompareService, CompareUpdate, Side, with_one_seed
from myserve_ui.serving.engine_pool import EnginePool
from myserve_ui.serving.model_names import find_model, find_pair, naming_side

MAX_ANSWER_TOKENS = 512
"""Evidence keeps the logits of both answers: a row of the vocabulary in float32 for each token."""


@dataclass(frozen=True, slots=True)
class ComparisonStep:
    """News of a comparison: how the answers stand, then that evidence is gathered, then the document."""

    update: CompareUpdate
    is_explaining: bool = False
    document: Comparison | None = None


@dataclass(frozen=True, slots=True)
class Footprint:
    """What a loaded model's weights take, and where it computes."""

    weights: MemoryReport | None
    """None for a model that was not loaded from files."""
    device: torch.device
    dtype: torch.dtype
    """Of activations."""

    @property
    def peak_bytes(self) -> int | None:
        """The most memory that was taken so far, by everything: on a GPU, or by this process; None: nobody counts."""
        if self.device.type == "cuda":
            return torch.cuda.max_memory_allocated(self.device)
        try:
            import resource
        except ImportError:  # Windows has no such count
            return None
        unit = 1 if platform.system() == "Darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


class Comparisons:
    """Side-by-side answers and reports, by the names that people use: a catalog's key or a bare precision."""

    def __init__(self, chat: ChatService, pool: EnginePool) -> None:
        self.chat = chat
        self._compare = CompareService(chat)
        self._fidelity = FidelityService(pool)
        self._pool = pool

    def models(self) -> tuple[ModelInfo, ...]:
        """Every (model, precision) that can be asked for, the default first."""
        return self.chat.models()

    def pair(self, base: str = "", candidate: str = "") -> tuple[str, str]:
        """Keys of both names, full precision and nf4 for empty ones. Raises ModelNotFoundError."""
        names = find_pair(self.models(), base, candidate)
        with naming_side(Side.BASE):
            base = self.chat.model(names[0]).id
        with naming_side(Side.CANDIDATE):
            candidate = self.chat.model(names[1]).id
        return base, candidate

    def footprint(self, name: str) -> Footprint | None:
        """What the model of key `name` takes, and where; None while it is not loaded."""
        for engine in self._pool.engines():
            if engine.info.id == name:
                return Footprint(engine.loaded.memory, engine.loaded.device, engine.loaded.dtype)
        return None

    async def compare(self, request: CompareRequest, *, evidence: bool = True) -> AsyncGenerator[ComparisonStep, None]:
        """Steps of a comparison; the last one carries the document.

        What goes wrong on one side, or with the evidence, is told in the document. Raises InvalidRequestError for an
        answer that would be too long, ModelNotFoundError.
        """
        self.chat.check_open()
        request = self._settled(request)
        with self._pool.hold(request.base, request.candidate):
            async with aclosing(self._steps(request, evidence=evidence)) as steps:
                async for step in steps:
                    yield step

    async def _steps(self, request: CompareRequest, *, evidence: bool) -> AsyncGenerator[ComparisonStep, None]:
        update: CompareUpdate | None = None
        async with aclosing(self._compare.compare(request)) as updates:
            async for update in updates:
                yield ComparisonStep(update)
        if update is None:
            raise InvalidRequestError("The comparison gave no answer.")
        findings: Evidence | str | None = _why_no_evidence(update) if evidence else "not asked for"
        if findings is None:
            yield ComparisonStep(update, is_explaining=True)
            try:
                findings = await self._explain(request, update)
            except MyServeError as error:
                findings = error.message
        infos = {side: self.chat.model(update.answers[side].model) for side in Side}
        memory = Both(base=self._memory(infos[Side.BASE]), candidate=self._memory(infos[Side.CANDIDATE]))
        document = make_comparison(request, update, infos, memory=memory, evidence=findings)
        yield ComparisonStep(update, document=document)

    async def report(self, request: FidelityRequest) -> AsyncGenerator[Progress[FidelityReport], None]:
        """Progress of a fidelity report, then its document. Raises as FidelityService.report, ModelNotFoundError."""
        self.chat.check_open()
        base, candidate = self.pair(request.base, request.candidate)
        request = replace(request, base=base, candidate=candidate)
        with self._pool.hold(base, candidate):
            async with aclosing(self._fidelity.report(request)) as steps:
                async for step in steps:
                    yield step

    async def perplexity(self, request: FidelityRequest) -> AsyncGenerator[Progress[PerplexityReport], None]:
        """The same for the model `request.base` alone."""
        model = find_model(self.models(), request.base) if request.base else self.models()[0].id
        async with aclosing(self.report(replace(request, base=model, candidate=model))) as steps:
            async for step in steps:
                found = perplexity_of(step.document) if step.document else None
                yield Progress(step.tokens_done, step.tokens_total, found)

    def _memory(self, info: ModelInfo) -> Memory:
        footprint = self.footprint(info.id)
        return memory_of(info, footprint.weights if footprint else None)

    def _settled(self, request: CompareRequest) -> CompareRequest:
        """`request` with keys for names, one seed for both, and a length that evidence can be given for."""
        base, candidate = self.pair(request.base, request.candidate)
        length = request.chat.params.max_tokens or request.chat.default_max_tokens
        if length is None or length > MAX_ANSWER_TOKENS:
            raise InvalidRequestError(
                f"max_tokens must be in [1, {MAX_ANSWER_TOKENS}] for a comparison, got {length}.", param="max_tokens"
            )
        return with_one_seed(replace(request, base=base, candidate=candidate))

    async def _explain(self, request: CompareRequest, update: CompareUpdate) -> Evidence:
        base, candidate = (update.answers[side] for side in Side)
        params = request.chat.params.resolve(SamplingDefaults())
        pair = AnswerPair(base.prompt_token_ids, base.token_ids, candidate.token_ids, greedy=params.is_greedy)
        return await self._fidelity.explain(base.model, candidate.model, pair)


def _why_no_evidence(update: CompareUpdate) -> str | None:
    """A sentence if the answers cannot be laid over each other; None if they can."""
    base, candidate = (update.answers[side] for side in Side)
    if base.error or candidate.error:
        return "One side has no whole answer, so there is nothing to lay side by side."
    if base.prompt_token_ids != candidate.prompt_token_ids:
        return (
            f"{base.model} and {candidate.model} read the prompt as different tokens, so their answers cannot be "
            "compared token by token; choose two precisions of one model."
        )
    return None
