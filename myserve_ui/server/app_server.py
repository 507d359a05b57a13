"""Runs the app under uvicorn: says when it is ready, drains at the first signal, ends at the second."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable
from types import FrameType

import uvicorn

from myserve_ui.core.model_info import LoadState
from myserve_ui.server.process import is_hang_up
from myserve_ui.serving.chat_service import ChatService

logger = logging.getLogger(__name__)

OPEN_PAGE_SECONDS = 2
"""How long open pages are waited for after the last answer: their heartbeat streams never end by themselves."""
LOAD_FAILED = 1


class AppServer(uvicorn.Server):
    """A server that knows the service behind its app. `exit_code` is what the process should end with."""

    def __init__(
        self,
        config: uvicorn.Config,
        service: ChatService,
        *,
        on_ready: Callable[[], None],
        on_failure: Callable[[str], None],
        on_drain: Callable[[], None],
    ) -> None:
        super().__init__(config)
        self.exit_code = 0
        self._service = service
        self._on_ready = on_ready
        self._on_failure = on_failure
        self._on_drain = on_drain
        self._load_is_known = False
        self._signals = 0
        self._drain: asyncio.Task[None] | None = None

    async def on_tick(self, counter: int) -> bool:
        """Called by uvicorn ten times a second; True ends the server."""
        if not self._load_is_known:
            self._look_at_the_load()
        if self._signals and self._drain is None:
            self._drain = asyncio.create_task(self._drain_and_exit())
        return await super().on_tick(counter)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """First signal: new requests are refused from now on. Second: the process ends here, unless it is a hang-up."""
        self._signals += 1
        if self._signals > 1 and not is_hang_up(sig):
            signal.signal(sig, signal.SIG_DFL)
            signal.raise_signal(sig)
        self._service.drain()

    async def _drain_and_exit(self) -> None:
        unfinished = self._service.status().num_unfinished
        answers = f"finishing {unfinished} answer{'' if unfinished == 1 else 's'}" if unfinished else "shutting down"
        logger.info("%s; a second signal ends at once", answers)
        self._on_drain()
        await self._service.shut_down()
        self.should_exit = True

    def _look_at_the_load(self) -> None:
        default = self._service.model("")
        self._load_is_known = default.state in (LoadState.READY, LoadState.FAILED, LoadState.UNAVAILABLE)
        if default.state is LoadState.READY:
            self._on_ready()
        elif self._load_is_known:
            self._on_failure(default.reason or f"{default.id} could not be loaded.")
            self.exit_code = LOAD_FAILED
            self.should_exit = True
