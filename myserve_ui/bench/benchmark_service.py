"""What every door asks about speed: run a benchmark, see the roofline of a model, look at runs that were kept."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, replace

import torch

from myserve_ui.bench.client.client import NO_KEY, Target
from myserve_ui.bench.client.server_facts import find_targets
from myserve_ui.bench.documents.comparison import compare_runs
from myserve_ui.bench.documents.differences import RunComparison
from myserve_ui.bench.documents.run import BenchmarkRun
from myserve_ui.bench.documents.store import RunListing, RunStore
from myserve_ui.bench.machine.local import surroundings
from myserve_ui.bench.machine.speeds import MachineSpeeds
from myserve_ui.bench.question.question import AskedTarget, BenchmarkQuestion, BenchmarkRequest, NamedTarget
from myserve_ui.bench.roofline.documents import Room, ServedRoofline
from myserve_ui.bench.roofline.roofline import ModelRoofline, room_for
from myserve_ui.bench.sweep import CARD_POINTS, Surroundings, Sweep, SweepProgress
from myserve_ui.core.model_info import ModelInfo
from myserve_ui.errors import InvalidRequestError, OverloadedError
from myserve_ui.serving.chat_service import ChatService
from myserve_ui.serving.engine_pool import EnginePool
from myserve_ui.serving.model_names import find_model

FITTING_LENGTHS = (512, 2048, 8192)


@dataclass(frozen=True, slots=True)
class OwnDoor:
    """How this app is reached by itself."""

    url: str
    """Base URL of the API, with /v1."""
    api_key: str = NO_KEY
    measures_others: bool = True
    """Whether callers may name other servers: not where strangers can call, who would reach the operator's network."""


class BenchmarkService:
    """One benchmark at a time, over the app's own port or another server's; runs are kept in `store`."""

    def __init__(
        self, chat: ChatService, pool: EnginePool, store: RunStore, *, own: OwnDoor, speeds: MachineSpeeds
    ) -> None:
        self.own = own
        self.speeds = speeds
        self._chat = chat
        self._pool = pool
        self._store = store
        self._one_run = asyncio.Lock()

    @property
    def is_running(self) -> bool:
        return self._one_run.locked()

    def models(self) -> tuple[ModelInfo, ...]:
        """Every (model, precision) of this app, the default first."""
        return self._chat.models()

    def own_target(self, name: str = "") -> NamedTarget:
        """This app's model of a key or a bare precision, the default for "". Raises ModelNotFoundError."""
        info = self._find(name)
        return NamedTarget(Target(self.own.url, info.id, self.own.api_key), info.precision, is_ours=True)

    async def other_targets(self, asked: AskedTarget) -> tuple[NamedTarget, ...]:
        """Models of another server, as `find_targets`. Raises InvalidRequestError where that is not allowed, too."""
        if not self.own.measures_others:
            raise InvalidRequestError(
                "Other servers can be measured from here only while the app listens on 127.0.0.1; "
                "python -m myserve_ui bench --url measures them from anywhere.",
                param="url",
            )
        return await find_targets(asked)

    async def find(self, question: BenchmarkQuestion, *, own_url: str) -> BenchmarkRequest:
        """The request that `question` asks for; `own_url` is where this app reaches itself, and others are asked.

        Raises InvalidRequestError, ModelNotFoundError.
        """
        targets: list[NamedTarget] = []
        for asked in question.targets:
            if asked.url:
                targets += await self.other_targets(asked)
            else:
                named = self.own_target(asked.model)
                targets.append(replace(named, target=replace(named.target, url=own_url)))
        return BenchmarkRequest(tuple(targets), question)

    async def run(self, request: BenchmarkRequest, *, save: bool = True) -> AsyncGenerator[SweepProgress, None]:
        """Steps of a benchmark; the last one has the document, which is kept.

        Loads models of this app that are not loaded. Leaving stops it; what was measured until then is kept too.
        Raises OverloadedError while another one runs, ModelLoadError.
        """
        if self.is_running:
            raise OverloadedError("A benchmark is running; two would measure each other. Stop it or wait for its end.")
        own = [named.target.model for named in request.targets if named.is_ours]
        async with self._one_run:
            with self._pool.hold(*own):
                async with aclosing(self._run(request, own, save=save)) as steps:
                    async for step in steps:
                        yield step

    async def roofline(self, model: str = "") -> ServedRoofline:
        """The `roofline` document of one of this app's models, which is loaded if it is not.

        Measures the machine at the first call, for about a second. Raises ModelNotFoundError, ModelLoadError;
        InvalidRequestError for a model without weights.
        """
        name = self._find(model).id
        async for _progress in self._chat.load(name):
            pass
        info = self._chat.model(name)
        if (found := await self.speeds.roofline(info)) is None:
            raise InvalidRequestError(f"{info.id} has no weights to read, so there is no roofline.", param="model")
        document = dict(found.document(CARD_POINTS))
        budget, fits = self._room_of(info)
        return ServedRoofline(**document, model=info.id, precision=info.precision, kv_budget_bytes=budget, fits=fits)

    async def roofline_anew(self, model: str = "") -> ServedRoofline:
        """As `roofline`, after one more measurement."""
        await self.roofline(model)
        await self.speeds.measure_anew(self._find(model))
        return await self.roofline(model)

    async def runs(self) -> RunListing:
        """What was kept, the newest first."""
        return await asyncio.to_thread(self._store.listing)

    async def load_run(self, run_id: str) -> BenchmarkRun:
        """A kept run. Raises InvalidRequestError."""
        return await asyncio.to_thread(self._store.load, run_id)

    async def delete_run(self, run_id: str) -> None:
        """Forget a run. Raises InvalidRequestError for what is no id."""
        await asyncio.to_thread(self._store.delete, run_id)

    async def compare(self, a: str, b: str) -> RunComparison:
        """Two kept runs side by side. Raises InvalidRequestError."""
        return compare_runs(await self.load_run(a), await self.load_run(b))

    async def _run(
        self, request: BenchmarkRequest, own: list[str], *, save: bool
    ) -> AsyncGenerator[SweepProgress, None]:
        total = request.num_requests
        if save:
            await asyncio.to_thread(self._store.check)
        for name in own:
            async for progress in self._chat.load(name):
                yield SweepProgress(f"{progress.model}: {progress.stage}", 0, total, None)
        yield SweepProgress("measuring the machine", 0, total, None)
        sweep = Sweep(request, surroundings=await self._surroundings(own))
        is_kept = not save
        try:
            async with aclosing(sweep.run()) as steps:
                async for step in steps:
                    if step.document is not None and not is_kept:
                        await asyncio.to_thread(self._store.save, step.document)
                        is_kept = True
                    yield step
        finally:
            if not is_kept and sweep.has_results:
                self._store.save(sweep.document())

    async def _surroundings(self, own: list[str]) -> Surroundings:
        infos = [self._chat.model(name) for name in own]
        speeds = [await self.speeds.of(info) if info.bytes_per_step else None for info in infos]
        device = torch.device(infos[0].device or "cpu") if infos else torch.device("cpu")
        return await surroundings(device, speeds[0] if speeds else None, self._roofline_of)

    def _roofline_of(self, named: NamedTarget) -> ModelRoofline | None:
        return self.speeds.known_roofline(self._chat.model(named.target.model)) if named.is_ours else None

    def _room_of(self, info: ModelInfo) -> tuple[int | None, tuple[Room, ...]]:
        """How much memory its keys and values may take, and how many sequences that is."""
        engine = next((engine for engine in self._chat.status().engines if engine.model == info.id), None)
        per_token = info.kv_bytes_per_token or 0
        if engine is None or not per_token:
            return None, ()
        budget = engine.kv_tokens_total * per_token
        lengths = [length for length in FITTING_LENGTHS if length <= (info.context_length or length)]
        return budget, room_for(budget, per_token, lengths)

    def _find(self, name: str) -> ModelInfo:
        return self._chat.model(find_model(self._chat.models(), name))
