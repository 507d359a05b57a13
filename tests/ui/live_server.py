"""A real uvicorn on a free port of 127.0.0.1, in a thread of its own, for clients that need a socket."""

from __future__ import annotations

import secrets
import socket
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import uvicorn
from fastapi import FastAPI

from myserve_ui.bench.benchmark_service import BenchmarkService, OwnDoor
from myserve_ui.bench.documents.store import RunStore
from myserve_ui.bench.machine.speeds import MachineSpeeds
from myserve_ui.evaluation.comparisons import Comparisons
from myserve_ui.server.browser import PageHeaders
from myserve_ui.settings import Settings
from myserve_ui.ui.interface import mount_ui


def page_app(
    service: object,
    *,
    comparisons: Comparisons | None = None,
    benchmarks: BenchmarkService | None = None,
    **settings: object,
) -> FastAPI:
    """The page alone, over any object with ChatService's methods."""

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        if hasattr(service, "shut_down"):
            async for _progress in service.load(""):
                pass
        yield
        if hasattr(service, "shut_down"):
            await service.shut_down()

    comparisons = comparisons or Comparisons(service, getattr(service, "_pool", None))  # type: ignore[arg-type]
    app = FastAPI(lifespan=lifespan)
    app.add_middleware(PageHeaders)
    return mount_ui(
        app,
        service,  # type: ignore[arg-type]
        Settings(**settings),  # type: ignore[arg-type]
        comparisons=comparisons,
        benchmarks=benchmarks or make_benchmarks(service),
    )


def make_benchmarks(service: object, folder: Path | None = None) -> BenchmarkService:
    """Over any object with ChatService's methods; its own port is the one that a visitor comes in by."""
    store = RunStore(folder or Path(tempfile.gettempdir()) / f"runs-{secrets.token_hex(8)}")  # made at the first save
    pool = getattr(service, "_pool", None)
    own = OwnDoor("http://127.0.0.1:9/v1")
    return BenchmarkService(service, pool, store, own=own, speeds=MachineSpeeds())  # type: ignore[arg-type]


@contextmanager
def serving(make_app: Callable[[], FastAPI]) -> Iterator[str]:
    """Base URL of the running app; stopped at the end, open streams or not."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        config = uvicorn.Config(make_app(), log_level="critical", timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        while not server.started:
            assert thread.is_alive(), "the server ended while it was starting"
            thread.join(0.02)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        server.should_exit = True
        thread.join(15)
        assert not thread.is_alive(), "the server did not stop"
