"""What every door asks about speed: run a benchmark, see the roofline of a model, look at runs that were kept."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

import torch

from myserve_ui.bench.benchmark_request import BenchmarkRequest, NamedTarget
from myserve_ui.bench.client.client import NO_KEY, Target
from myserve_ui.bench.client.overhead import measure_client_overhead
from myserve_ui.bench.client.server_facts import ask_models, choose_targets
from myserve_ui.bench.documents.comparison import compare_runs
from myserve_ui.bench.documents.store import RunListing, RunStore
from myserve_ui.bench.machine.facts import PACKAGES, describe_machine
from myserve_ui.bench.machine.speed import measure_machine
from myserve_ui.bench.roofline.roofline import MachineSpeed, ModelRoofline, count_sequences_that_fit, find_cost
from myserve_ui.bench.sweep import CARD_POINTS, Surroundings, Sweep, SweepProgress
from myserve_ui.core.machine import describe_versions
from myserve_ui.core.model_info import ModelInfo
from myserve_ui.errors import InvalidRequestError, OverloadedError
from myserve_ui.serving.chat_service import ChatService
from myserve_ui.serving.engine_pool import EnginePool
from myserve_ui.serving.model_names import find_model
from myserve_ui.serving.step_loop import on_own_thread

FITTING_LENGTHS = (512, 2048, 8192)
Measure = Callable[[torch.device, torch.dtype], MachineSpeed]


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
        self, chat: ChatService, pool: EnginePool, store: RunStore, *, own: OwnDoor, measure: Measure = measure_machine
    ) -> None:
        self.own = own
        self._chat = chat
        self._pool = pool
        self._store = store
        self._measure = measure
        self._speeds: dict[tuple[str, str], MachineSpeed] = {}
        self._one_measurement = asyncio.Lock()
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

    async def other_targets(
        self, url: str, model: str, *, api_key: str = "", name: str = ""
    ) -> tuple[NamedTarget, ...]:
        """A model of another server, called `name`; the first that it lists for "", several with commas between.

        Raises InvalidRequestError where that is not allowed or nothing is listed, ModelNotFoundError.
        """
        if not self.own.measures_others:
            raise InvalidRequestError(
                "Other servers can be measured from here only while the app listens on 127.0.0.1; "
                "python -m myserve_ui bench --url measures them from anywhere.",
                param="url",
            )
        target = Target(url.rstrip("/"), model, api_key or NO_KEY)
        found = choose_targets(target, await ask_models(target), ())
        return tuple(replace(named, precision=name or named.precision) for named in found)

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

    async def roofline(self, model: str = "") -> dict[str, Any]:
        """The `roofline` document of one of this app's models, which is loaded if it is not.

        Measures the machine at the first call, for about a second. Raises ModelNotFoundError, ModelLoadError;
        InvalidRequestError for a model without weights.
        """
        name = self._find(model).id
        async for _progress in self._chat.load(name):
            pass
        info = self._chat.model(name)
        await self.measure(info)
        found = self._model_roofline(info)
        if found is None:
            raise InvalidRequestError(f"{info.id} has no weights to read, so there is no roofline.", param="model")
        return found.document(CARD_POINTS) | {"model": info.id, "precision": info.precision} | self._room_of(info)

    async def measure(self, info: ModelInfo) -> MachineSpeed | None:
        """Speeds of the device of a loaded model, in its dtype; measured once. None for a model without a device."""
        if info.device is None or info.dtype is None or not info.bytes_per_step:
            return None
        key = info.device, info.dtype
        async with self._one_measurement:
            if key not in self._speeds:
                self._speeds[key] = await self._measured(*key)
        return self._speeds[key]

    async def roofline_anew(self, model: str = "") -> dict[str, Any]:
        """As `roofline`, after one more measurement: one that was made while others worked promises too little."""
        await self.roofline(model)
        info = self._find(model)
        if info.device is not None and info.dtype is not None:
            key = info.device, info.dtype
            async with self._one_measurement:
                self._speeds[key] = self._speeds[key].quicker(await self._measured(*key))
        return await self.roofline(model)

    async def _measured(self, device: str, dtype: str) -> MachineSpeed:
        return await on_own_thread(self._measure, torch.device(device), getattr(torch, dtype))

    async def runs(self) -> RunListing:
        """What was kept, the newest first."""
        return await asyncio.to_thread(self._store.listing)

    async def load_run(self, run_id: str) -> dict[str, Any]:
        """The document of a kept run. Raises InvalidRequestError."""
        return await asyncio.to_thread(self._store.load, run_id)

    async def delete_run(self, run_id: str) -> None:
        """Forget a run. Raises InvalidRequestError for what is no id."""
        await asyncio.to_thread(self._store.delete, run_id)

    async def compare(self, a: str, b: str) -> dict[str, Any]:
        """The `bench_comparison` document of two kept runs. Raises InvalidRequestError."""
        return compare_runs(await self.load_run(a), await self.load_run(b))

    async def _run(
        self, request: BenchmarkRequest, own: list[str], *, save: bool
    ) -> AsyncGenerator[SweepProgress, None]:
        total = request.num_requests
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
        speeds = [await self.measure(self._chat.model(name)) for name in own]
        device = torch.device(self._chat.model(own[0]).device or "cpu") if own else torch.device("cpu")
        return Surroundings(
            machine=describe_machine(device, speeds[0] if speeds else None),
            versions=describe_versions(PACKAGES),
            client_overhead_ms=(await measure_client_overhead()).as_json(),
            roofline=self._roofline_of,
        )

    def _roofline_of(self, named: NamedTarget) -> ModelRoofline | None:
        return self._model_roofline(self._chat.model(named.target.model)) if named.is_ours else None

    def _model_roofline(self, info: ModelInfo) -> ModelRoofline | None:
        cost, speed = find_cost(info), self._speeds.get((info.device or "", info.dtype or ""))
        return ModelRoofline(speed, cost, info.weight_bytes or 0) if cost and speed else None

    def _room_of(self, info: ModelInfo) -> dict[str, Any]:
        """How much memory its keys and values may take, and how many sequences that is."""
        engine = next((engine for engine in self._chat.status().engines if engine.model == info.id), None)
        per_token = info.kv_bytes_per_token or 0
        if engine is None or not per_token:
            return {"kv_budget_bytes": None, "fits": []}
        budget = engine.kv_tokens_total * per_token
        lengths = [length for length in FITTING_LENGTHS if length <= (info.context_length or length)]
        fits = [{"length": n, "sequences": count_sequences_that_fit(budget, per_token, n)} for n in lengths]
        return {"kv_budget_bytes": budget, "fits": fits}

    def _find(self, name: str) -> ModelInfo:
        return self._chat.model(find_model(self._chat.models(), name))
