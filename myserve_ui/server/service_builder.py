"""Makes the services that the settings describe; loads nothing yet."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from myserve_ui.bench.benchmark_service import BenchmarkService, OwnDoor
from myserve_ui.bench.client.client import NO_KEY
from myserve_ui.bench.documents.store import RUNS_FOLDER, RunStore
from myserve_ui.bench.machine.speeds import MachineSpeeds
from myserve_ui.core.machine import is_loopback
from myserve_ui.core.model_info import OnProgress
from myserve_ui.evaluation.comparisons import Comparisons
from myserve_ui.kernels.threads import bound_threads, follow_core_share
from myserve_ui.model_settings import catalog_of, engine_limits, load_options
from myserve_ui.models.catalog import Catalog, CatalogEntry, ModelSource, SourceKind
from myserve_ui.models.loaded_model import ECHO_NAME, LoadedModel, echo_model
from myserve_ui.models.loading.loader import load_model
from myserve_ui.serving.chat_service import ChatService
from myserve_ui.serving.early_load import EarlyLoad
from myserve_ui.serving.engine_pool import EnginePool, Load
from myserve_ui.serving.request_stream import StreamLimits
from myserve_ui.serving.response_cache import ResponseCache
from myserve_ui.settings import Settings

WILDCARDS = ("0.0.0.0", "::")


@dataclass(frozen=True, slots=True)
class Services:
    """What the doors are handed."""

    chat: ChatService
    comparisons: Comparisons
    benchmarks: BenchmarkService
    begin_loading: Callable[[], None]
    """Start to load the default model at once, on a thread, for the first who asks for it."""


def build_services(settings: Settings) -> Services:
    """Services over the model of `settings`, or over the echo where they say so."""
    bound_threads(settings.threads)
    catalog, own_load = _echo() if settings.force_echo else _model(settings)
    load = EarlyLoad(own_load)
    pool = EnginePool(
        catalog,
        load,
        engine_limits(settings),
        weight_budget=_bytes(settings.weights_gib),
        before_round=follow_core_share(settings.threads).apply,
    )
    chat = ChatService(
        pool,
        limits=StreamLimits(timeout=settings.request_timeout),
        cache=ResponseCache(settings.response_cache_entries, int(settings.response_cache_mib * 2**20)),
        stall_seconds=settings.stall_seconds,
        grace=settings.shutdown_grace,
    )
    store = RunStore(settings.data / RUNS_FOLDER)
    benchmarks = BenchmarkService(chat, pool, store, own=_own_door(settings), speeds=MachineSpeeds())
    return Services(chat, Comparisons(chat, pool), benchmarks, lambda: load.begin(catalog.default))


def _own_door(settings: Settings) -> OwnDoor:
    """The address under which the app reaches itself."""
    host = "127.0.0.1" if settings.host in WILDCARDS else settings.host.strip("[]")
    shown = f"[{host}]" if ":" in host else host
    key = settings.api_key[0].get_secret_value() if settings.api_key else NO_KEY
    return OwnDoor(f"http://{shown}:{settings.port}/v1", key, measures_others=is_loopback(settings.host))


def _model(settings: Settings) -> tuple[Catalog, Load]:
    catalog = catalog_of(settings)
    options = load_options(settings)

    def load(entry: CatalogEntry, on_progress: OnProgress) -> LoadedModel:
        return load_model(entry, options=options, on_progress=on_progress)

    return catalog, load


def _echo() -> tuple[Catalog, Load]:
    source = ModelSource(SourceKind.DEFAULT, ECHO_NAME, "")
    entry = CatalogEntry(ECHO_NAME, source, "full", created=int(time.time()))
    return Catalog([entry]), lambda _entry, _on_progress: echo_model()


def _bytes(gib: float | None) -> int | None:
    return None if gib is None else int(gib * 2**30)
