"""Engines by (model, precision): loaded when first asked for, once, and shared by every door."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from myserve_ui.core.model_info import EngineStatus, LoadProgress, LoadState, ModelInfo, OnProgress
from myserve_ui.engine.engine import Engine
from myserve_ui.engine.grammars.compiler import GrammarCompiler
from myserve_ui.errors import (
    ModelLoadError,
    ModelLoadingError,
    NotEnoughMemoryError,
    PrecisionUnavailableError,
    ShuttingDownError,
)
from myserve_ui.models.catalog import Catalog, CatalogEntry
from myserve_ui.models.loaded_model import LoadedModel
from myserve_ui.serving.engine_builder import EngineLimits, build_engine
from myserve_ui.serving.engine_worker import ENGINE_DIED, EngineWorker
from myserve_ui.serving.step_loop import StepLoop, on_own_thread

logger = logging.getLogger(__name__)

Load = Callable[[CatalogEntry, OnProgress], LoadedModel]
PROGRESS_INTERVAL = 0.25


@dataclass(frozen=True, slots=True)
class RunningEngine:
    """A model that answers, and what steps its engine."""

    loaded: LoadedModel
    worker: EngineWorker
    info: ModelInfo
    max_model_len: int
    grammars: GrammarCompiler


class _Slot:
    """One catalog entry and how far its engine has come."""

    def __init__(self, entry: CatalogEntry) -> None:
        self.entry = entry
        self.engine: RunningEngine | None = None
        self.progress = LoadProgress(entry.key, "waiting to load")
        self.task: asyncio.Task[RunningEngine] | None = None
        self.last_used = 0.0
        """By the engines' clock; an answer that it began then may have ended later."""
        self.num_holds = 0
        self.error: ModelLoadError | None = None

    def info(self) -> ModelInfo:
        info = self.entry.info()
        if self.engine is not None:
            alive = self.engine.worker.is_alive
            return self.engine.info if alive else replace(self.engine.info, state=LoadState.FAILED, reason=ENGINE_DIED)
        if self.task is not None and not self.task.done():
            return replace(info, state=LoadState.LOADING, reason=self.progress.stage)
        if self.error is not None:
            return replace(info, state=LoadState.FAILED, reason=self.error.message)
        return info


class EnginePool:
    """Owns every engine. `load` brings a catalog entry's weights into memory; it runs on a worker thread.

    Concurrent first requests share one load; loads of different entries follow each other, since each takes memory
    and every core. What does not fit beside the engines that are loaded, or beside `weight_budget` bytes of weights in
    all, makes the one go that is unused for longest: never one that is held or has unfinished requests, never the
    default.
    """

    def __init__(
        self,
        catalog: Catalog,
        load: Load,
        limits: EngineLimits,
        *,
        weight_budget: int | None = None,
        before_round: Callable[[], None] = lambda: None,
    ) -> None:
        """`before_round`: called on the thread that steps all engines of the CPU, before each round of steps."""
        self._load = load
        self._limits = limits
        self._catalog = catalog
        self._slots = {entry.key: _Slot(entry) for entry in catalog}
        self._weight_budget = weight_budget
        self._one_load = asyncio.Lock()
        self._cpu_loop = StepLoop("cpu", before_round=before_round)

    def models(self) -> tuple[ModelInfo, ...]:
        """Every (model, precision), the default first."""
        return tuple(slot.info() for slot in self._slots.values())

    def model(self, name: str) -> ModelInfo:
        """One of them, the default for "". Raises ModelNotFoundError."""
        return self._slot(name).info()

    def engine(self, name: str) -> RunningEngine:
        """The engine of `name`, which must be ready.

        Raises ModelNotFoundError; PrecisionUnavailableError or ModelLoadError if it cannot be had; ModelLoadingError
        while it loads, and starts the load; EngineDeadError or ShuttingDownError once it has ended.
        """
        slot = self._slot(name)
        if slot.engine is None:
            self._start_load(slot)
            raise ModelLoadingError(f"{slot.entry.key} is loading ({slot.progress.stage}); ask again in a moment.")
        if not slot.engine.worker.is_alive:
            raise slot.engine.worker.why_ended()
        slot.last_used = slot.engine.worker.now()
        return slot.engine

    async def load(self, name: str) -> AsyncIterator[LoadProgress]:
        """Load `name`, or join its load; yields what is being done and ends when it is ready. Raises ModelLoadError."""
        slot = self._slot(name)
        if slot.engine is not None:
            return
        task = self._start_load(slot)
        seen = None
        while not task.done():
            if slot.progress is not seen:
                yield (seen := slot.progress)
            await asyncio.wait({task}, timeout=PROGRESS_INTERVAL)
        if task.cancelled():
            raise ShuttingDownError(f"The app was shut down while {slot.entry.key} was loading.")
        await task

    @contextmanager
    def hold(self, *names: str) -> Iterator[None]:
        """Keep the engines of `names`, loaded by now or later, from making way.

        For as long as a request is prepared, or between two requests of one task.
        """
        slots = [self._slot(name) for name in names]
        for slot in slots:
            slot.num_holds += 1
        try:
            yield
        finally:
            for slot in slots:
                slot.num_holds -= 1

    def engines(self) -> tuple[RunningEngine, ...]:
        """The engines that are loaded, dead ones too."""
        return tuple(slot.engine for slot in self._slots.values() if slot.engine is not None)

    async def wait_until_idle(self) -> None:
        """Return once no engine has an unfinished request."""
        await asyncio.gather(*(engine.worker.wait_until_idle() for engine in self.engines()))

    async def shut_down(self) -> None:
        """End every engine; what is unfinished fails."""
        for slot in self._slots.values():
            if slot.task is not None:
                slot.task.cancel()
        await asyncio.gather(*(engine.worker.stop() for engine in self.engines()))

    def _slot(self, name: str) -> _Slot:
        return self._slots[self._catalog.get(name).key]

    def _start_load(self, slot: _Slot) -> asyncio.Task[RunningEngine]:
        if slot.entry.unavailable_reason is not None:
            raise PrecisionUnavailableError(slot.entry.unavailable_reason, param="model")
        if slot.task is None or (slot.task.done() and slot.engine is None):
            slot.error = None
            slot.task = asyncio.create_task(self._load_engine(slot), name=f"load {slot.entry.key}")
            slot.task.add_done_callback(_retrieve)
        return slot.task

    async def _load_engine(self, slot: _Slot) -> RunningEngine:
        async with self._one_load:
            try:
                loaded, engine = await self._load_with_room(slot)
            except ModelLoadError as error:
                slot.error = error
                raise
            except Exception as error:  # the border of the worker thread: keep the reason, show a sentence
                logger.exception("loading %s failed", slot.entry.key)
                slot.error = ModelLoadError(f"{slot.entry.key} could not be loaded: {type(error).__name__}.")
                raise slot.error from error
        step_loop = self._cpu_loop if loaded.device.type == "cpu" else StepLoop(slot.entry.key)
        worker = EngineWorker(slot.entry.key, engine, max_waiting=self._limits.max_waiting, step_loop=step_loop)
        worker.start()
        slot.engine = RunningEngine(
            loaded,
            worker,
            _describe(slot.entry, loaded, engine),
            engine.config.max_model_len,
            GrammarCompiler(loaded.tokenizer.token_bytes, end_token_ids=loaded.eos_token_ids),
        )
        slot.last_used = worker.now()
        await self._keep_budget(slot)
        return slot.engine

    async def _load_with_room(self, slot: _Slot) -> tuple[LoadedModel, Engine]:
        """Load, and again after each engine that had to make way for it."""
        while True:
            try:
                return await on_own_thread(self._load_and_build, slot)
            except NotEnoughMemoryError:
                if not await self._evict(keep=slot):
                    raise

    async def _keep_budget(self, newest: _Slot) -> None:
        """Let engines go until the weights are within the budget, or what is left is in use."""
        while self._weight_budget is not None and self._weight_bytes() > self._weight_budget:
            if not await self._evict(keep=newest):
                return

    def _weight_bytes(self) -> int:
        return sum(engine.info.weight_bytes or 0 for engine in self.engines())

    async def _evict(self, *, keep: _Slot) -> bool:
        """End the idle engine that is unused for longest, if there is one."""
        default = self._slot("")
        idle = [
            (max(slot.last_used, slot.engine.worker.last_progress), slot.engine, slot)
            for slot in self._slots.values()
            if slot not in (keep, default)
            and slot.engine is not None
            and slot.engine.worker.is_idle
            and not slot.num_holds
        ]
        if not idle:
            return False
        _, engine, slot = min(idle, key=lambda entry: entry[0])
        logger.info("%s makes way for %s", slot.entry.key, keep.entry.key)
        slot.engine = slot.task = None  # from here on a request for it starts a load
        reason = f"{slot.entry.key} made way for another model; ask again to load it."
        await engine.worker.stop(ModelLoadingError(reason))
        return True

    def _load_and_build(self, slot: _Slot) -> tuple[LoadedModel, Engine]:
        """On a worker thread: weights, then the self-check and the cache."""

        def report(stage: str, fraction: float | None = None) -> None:
            slot.progress = LoadProgress(slot.entry.key, stage, fraction)

        loaded = self._load(slot.entry, report)
        report("checking the engine against the model")
        return loaded, build_engine(loaded, self._limits.for_model(slot.entry.options))


def engine_status(engine: RunningEngine, stall_seconds: float) -> EngineStatus:
    """How one engine stands."""
    worker, snapshot = engine.worker, engine.worker.snapshot
    return EngineStatus(
        model=engine.info.id,
        alive=worker.is_alive,
        stalled=worker.seconds_without_progress() > stall_seconds,
        num_running=snapshot.num_running,
        num_waiting=len(snapshot.waiting),
        kv_tokens_used=snapshot.kv_tokens_used,
        kv_tokens_total=snapshot.kv_tokens_total,
        prefix_cache_queries=snapshot.prefix_lookup_tokens,
        prefix_cache_hits=snapshot.prefix_hit_tokens,
        prompt_tokens_total=snapshot.prompt_tokens,
        generation_tokens_total=snapshot.generation_tokens,
        steps_total=snapshot.steps,
        kv_tokens_kept=snapshot.kv_tokens_kept,
        preemptions_total=snapshot.preemptions,
        failed_steps_total=snapshot.failed_steps,
        out_of_memory_steps_total=snapshot.out_of_memory_steps,
        last_error=worker.last_error,
    )


def _describe(entry: CatalogEntry, loaded: LoadedModel, engine: Engine) -> ModelInfo:
    return replace(
        loaded.info,
        id=entry.key,
        name=entry.source.name,
        state=LoadState.READY,
        context_length=engine.config.max_model_len,
        note=" ".join(filter(None, (loaded.info.note, engine.config.context_note))) or None,
        kv_bytes_per_token=engine.runner.kv_bytes_per_token,
        has_chat_template=loaded.tokenizer.has_chat_template,
    )


def _retrieve(task: asyncio.Task[RunningEngine]) -> None:
    """Read a failed load's error, so that asyncio does not report it as never retrieved; the slot keeps it."""
    if not task.cancelled():
        task.exception()
