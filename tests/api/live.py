"""The door over a real service and a real socket, inside the test's own event loop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from fastapi import FastAPI

from myserve_ui.api.door import add_api
from myserve_ui.evaluation.comparisons import Comparisons
from myserve_ui.serving.chat_service import ChatService
from myserve_ui.settings import Settings


@asynccontextmanager
async def serve_door(
    service: ChatService, *, send_buffer: int | None = None, settings: Settings | None = None
) -> AsyncIterator[str]:
    """Serve the API over `service` on a free port; gives the base URL.

    With `send_buffer` the system keeps about so many bytes for a reader who does not read.
    """
    app = FastAPI(openapi_url=None, redirect_slashes=False)
    comparisons = Comparisons(service, service._pool)
    add_api(app, service, settings or Settings(), comparisons=comparisons, is_browser_path=lambda path: path == "/")
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as the app itself does
    if send_buffer is not None:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=1))
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        await serving
