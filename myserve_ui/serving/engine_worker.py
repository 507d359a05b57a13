"""One engine on the thread that steps it: requests in from the event loop, outputs back to it."""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from myserve_ui.core.outputs import RequestOutput
from myserve_ui.engine.engine import Engine
from myserve_ui.engine.sequence import EngineRequest, is_fault
from myserve_ui.engine.stats import EngineSnapshot
from myserve_ui.errors import (
    EngineDeadError,
    GenerationFailedError,
    InvalidRequestError,
    MyServeError,
    OverloadedError,
    ShuttingDownError,
)
from myserve_ui.serving.request_stream import RequestStream
from myserve_ui.serving.step_loop import StepLoop

logger = logging.getLogger(__name__)

STEP_FAILED = "The engine failed in the step that computed this answer; other requests go on. Please try again."
CUT_OFF = "The app was shut down before this answer was finished; ask again once it is back."
ENGINE_DIED = "The engine of this model has stopped and cannot answer; restart the app."


@dataclass(frozen=True, slots=True)
class _Add:
    requests: tuple[EngineRequest, ...]
    """They enter between the same two steps."""


@dataclass(frozen=True, slots=True)
class _Abort:
    request_id: str


STOP_PATIENCE = 5.0
"""Seconds that a step may take to end at shutdown; an engine that hangs is left behind."""


class _Stop:
    """Ends the engine."""


class EngineWorker:
    """Runs an engine on a StepLoop. Every method but the private ones and the turns is for the event loop.

    The engine is touched by that thread alone. Words to it go through one inbox; its outputs come back by
    `call_soon_threadsafe`, one call a step.
    """

    def __init__(self, name: str, engine: Engine, *, max_waiting: int, step_loop: StepLoop) -> None:
        self.name = name
        self.snapshot: EngineSnapshot = engine.snapshot()
        self.last_error: str | None = None
        self.is_alive = True
        self._end: MyServeError = EngineDeadError(ENGINE_DIED)
        self._engine = engine
        self._max_waiting = max_waiting
        self._step_loop = step_loop
        self._loop = asyncio.get_running_loop()
        self._streams: dict[str, RequestStream] = {}
        self._idle = asyncio.Event()
        self._idle.set()
        self._inbox: queue.SimpleQueue[_Add | _Abort | _Stop] = queue.SimpleQueue()
        self._last_progress = engine.clock()
        self._has_left: threading.Event | None = None

    def start(self) -> None:
        self._has_left = self._step_loop.add(self)

    def now(self) -> float:
        """The engine's clock."""
        return self._engine.clock()

    def submit(
        self, requests: Sequence[EngineRequest], open_stream: Callable[[EngineRequest], RequestStream]
    ) -> list[RequestStream]:
        """Queue requests, all or none, and return their streams in order.

        Raises `why_ended` if the engine has, or OverloadedError when too many wait already.
        """
        if not self.is_alive:
            raise self.why_ended()
        self._refuse_when_full(len(requests))
        if not self._streams:
            self._last_progress = self._engine.clock()
        streams = [self._open(request, open_stream) for request in requests]
        self._send(_Add(tuple(requests)))
        return streams

    def _open(self, request: EngineRequest, open_stream: Callable[[EngineRequest], RequestStream]) -> RequestStream:
        stream = open_stream(request)
        stream.on_abort = self.abort
        stream.queue_position = self.queue_position
        self._streams[request.request_id] = stream
        self._idle.clear()
        return stream

    def abort(self, request_id: str) -> None:
        """Forget a request: its row is free before the next step."""
        if self._forget(request_id) is not None:
            self._send(_Abort(request_id))

    def queue_position(self, request_id: str) -> int | None:
        """1 for the next to be admitted; None once admitted."""
        waiting = self.snapshot.waiting
        return waiting.index(request_id) + 1 if request_id in waiting else None

    @property
    def is_idle(self) -> bool:
        """True if no request is unfinished."""
        return not self._streams

    async def wait_until_idle(self) -> None:
        """Return once no request is unfinished."""
        await self._idle.wait()

    @property
    def last_progress(self) -> float:
        """When a step last ended, or after idle time the next request came; by the engine's clock."""
        return self._last_progress

    def seconds_without_progress(self) -> float:
        """Seconds since the last finished step, 0 while there is nothing to do."""
        return self._engine.clock() - self._last_progress if self._streams else 0.0

    def why_ended(self) -> MyServeError:
        """What somebody is told who asks an engine that has ended."""
        return type(self._end)(self._end.message)

    async def stop(self, reason: MyServeError | None = None) -> None:
        """Leave the thread, after the present step if there is one, and fail what is unfinished.

        `reason` is told to whoever waits or asks later; without one the app shuts down.
        """
        if self._has_left is not None and not self._step_loop.leave(self):
            self._send(_Stop())
            await asyncio.to_thread(self._has_left.wait, STOP_PATIENCE)
        self._die(reason or ShuttingDownError(CUT_OFF))

    def _refuse_when_full(self, num_new: int) -> None:
        waiting = max(len(self._streams) - self._engine.config.max_num_seqs, 0)
        most = self._engine.config.max_num_seqs + self._max_waiting
        if num_new > most:
            raise InvalidRequestError(f"{num_new} answers in one request are more than the {most} that fit.", param="n")
        if len(self._streams) + num_new > most:
            raise OverloadedError(
                f"{waiting} requests are waiting, and no more than {self._max_waiting} may; try again soon."
            )

    def _send(self, message: _Add | _Abort | _Stop) -> None:
        self._inbox.put(message)
        self._step_loop.wake()

    # -- on the thread that steps ----------------------------------------------------------------------------------

    @property
    def wants_turn(self) -> bool:
        return self._engine.has_work or not self._inbox.empty()

    def take_turn(self) -> bool:
        """Take in what came and make a step; False when the engine has ended."""
        try:
            if not self._drain_inbox():
                return False
            if self._engine.has_work:
                self._publish(self._step())
            return True
        except BaseException as error:  # the border: whatever ends this engine must not leave anybody waiting
            logger.exception("engine %s died", self.name)
            self.last_error = f"the engine has ended ({type(error).__name__}); the log has more"
            self._tell_loop(self._die, EngineDeadError(ENGINE_DIED))
            return False

    def _drain_inbox(self) -> bool:
        """Take in what came; False when the engine must end."""
        while True:
            try:
                message = self._inbox.get_nowait()
            except queue.Empty:
                return True
            if isinstance(message, _Stop):
                return False
            if isinstance(message, _Add):
                for request in message.requests:
                    self._take_in(request)
            else:
                self._engine.abort(message.request_id)
            self.snapshot = self._engine.snapshot()

    def _take_in(self, request: EngineRequest) -> None:
        try:
            self._engine.add(request)
        except BaseException as error:  # what is wrong with one request must not end the engine
            if not is_fault(error):
                raise
            logger.exception("engine %s could not take in a request", self.name)
            self.last_error = f"a request was not taken in ({type(error).__name__}); the log has more"
            self._tell_loop(self._fail, request.request_id, GenerationFailedError(STEP_FAILED))

    def _step(self) -> list[RequestOutput]:
        try:
            return self._engine.step()
        except BaseException as error:  # one bad step costs those who break it, not the engine
            if not is_fault(error):
                raise
            logger.exception("a step of engine %s failed", self.name)
            self.last_error = f"a step failed ({type(error).__name__}); the log has more"
        return self._engine.fail_step(STEP_FAILED)  # here the traceback, and the tensors that it holds, are let go

    def _publish(self, outputs: list[RequestOutput]) -> None:
        self._last_progress = self._engine.clock()
        self.snapshot = self._engine.snapshot()
        if outputs:
            self._tell_loop(self._deliver, outputs)

    def _tell_loop(self, callback: Callable[..., None], *arguments: object) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(callback, *arguments)

    # -- back on the event loop ------------------------------------------------------------------------------------

    def _deliver(self, outputs: list[RequestOutput]) -> None:
        for output in outputs:
            ended = output.finish_reason is not None
            stream = self._forget(output.request_id) if ended else self._streams.get(output.request_id)
            if stream is not None:
                stream.publish(output)

    def _die(self, reason: MyServeError) -> None:
        if self.is_alive:
            self.is_alive, self._end = False, reason
        for request_id in list(self._streams):
            self._fail(request_id, reason)

    def _fail(self, request_id: str, reason: MyServeError) -> None:
        if (stream := self._forget(request_id)) is not None:
            stream.publish(stream.failed(reason.message, reason.code))

    def _forget(self, request_id: str) -> RequestStream | None:
        stream = self._streams.pop(request_id, None)
        if not self._streams:
            self._idle.set()
        return stream
