"""The page and the API on one port over tiny real models, as the whole app has them: what a benchmark measures."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from fastapi import FastAPI

from myserve_ui.api.door import add_api
from myserve_ui.bench.benchmark_service import BenchmarkService, OwnDoor
from myserve_ui.bench.documents.store import RunStore
from myserve_ui.bench.machine.speeds import MachineSpeeds
from myserve_ui.bench.roofline.roofline import MachineSpeed
from myserve_ui.evaluation.comparisons import Comparisons
from myserve_ui.models.catalog import Catalog, CatalogEntry, ModelSource, SourceKind
from myserve_ui.models.loaded_model import LoadedModel
from myserve_ui.models.tiny import build_tiny_loaded_model
from myserve_ui.server.browser import is_browser_path
from myserve_ui.serving.chat_service import ChatService
from myserve_ui.serving.engine_builder import EngineLimits
from myserve_ui.serving.engine_pool import EnginePool
from myserve_ui.settings import Settings
from myserve_ui.ui.interface import mount_ui

SOURCE = ModelSource(SourceKind.FOLDER, "tiny", "")
SPEED = MachineSpeed(1e9, 2e10, "cpu", "float32")
"""What the machine is said to do: measuring it would take every core for a second."""


OWN_DOOR = OwnDoor("http://127.0.0.1:9/v1")
"""Nothing listens there: the port that a caller came in by is the one that is measured."""


def bench_app(folder: Path, *, pause: float = 0.0, own: OwnDoor = OWN_DOOR, **settings: object) -> FastAPI:
    """ "tiny" in full precision and as "nf4", each step `pause` seconds longer; runs are kept in `folder`."""
    catalog = Catalog(
        [
            CatalogEntry("tiny", SOURCE, "full", created=1),
            CatalogEntry("tiny:nf4", SOURCE, "nf4", created=1),
        ]
    )

    def load(entry: CatalogEntry, _on_progress: object) -> LoadedModel:
        loaded = build_tiny_loaded_model("llama")
        loaded.module.register_forward_pre_hook(lambda *_: time.sleep(pause))
        info = replace(loaded.info, precision=entry.precision, device="cpu", dtype="float32")
        return replace(loaded, info=replace(info, bytes_per_step=400_000, num_parameters=100_000, weight_bytes=400_000))

    pool = EnginePool(catalog, load, EngineLimits(debug=True))
    chat = ChatService(pool, grace=0.0)
    benchmarks = BenchmarkService(
        chat, pool, RunStore(folder), own=own, speeds=MachineSpeeds(lambda _device, _dtype: SPEED)
    )
    return _whole_app(chat, Comparisons(chat, pool), benchmarks, Settings(**settings))  # type: ignore[arg-type]


def _whole_app(
    chat: ChatService, comparisons: Comparisons, benchmarks: BenchmarkService, settings: Settings
) -> FastAPI:
    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        async for _progress in chat.load(""):
            pass
        yield
        await chat.shut_down()

    app = FastAPI(lifespan=lifespan, openapi_url=None, redirect_slashes=False)
    add_api(app, chat, settings, comparisons=comparisons, is_browser_path=is_browser_path)
    return mount_ui(app, chat, settings, comparisons=comparisons, benchmarks=benchmarks)
