"""Makes grammars one at a time, each tried in a worker first: no schema ends the app or holds up a plain chat."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from myserve_ui.core.tool_call_output import AnswerForm, ToolCallOutput
from myserve_ui.engine.grammars.compiler import CompiledGrammar, GrammarCompiler
from myserve_ui.engine.grammars.text import write_grammar
from myserve_ui.errors import SHUTTING_DOWN, InvalidRequestError, ShuttingDownError
from myserve_ui.serving.grammars.process import GrammarProcess, TrialLimits

_Result = TypeVar("_Result")


class GrammarWorkshop:
    """Grammars of all models, in turns: a hostile one takes a core for seconds.

    A turn belongs to the work and not to who asked for it: a client that leaves while it waits is forgotten, one that
    leaves during a trial ends the trial, and what the app has begun to compile keeps the turn until it is done.
    """

    def __init__(self, limits: TrialLimits | None = None) -> None:
        self.process = GrammarProcess(limits or TrialLimits())
        self._turn = asyncio.Lock()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="grammars")
        self._work: set[asyncio.Task[CompiledGrammar]] = set()
        self._closed = asyncio.Event()

    async def compile(self, grammars: GrammarCompiler, form: AnswerForm) -> CompiledGrammar:
        """The grammar of `form`, made or at hand.

        Raises InvalidRequestError, UnavailableError if none can be made, and ShuttingDownError once the app ends.
        """
        if (grammar := grammars.find(form)) is not None:
            return grammar
        if self._closed.is_set():
            raise ShuttingDownError(SHUTTING_DOWN)
        work = asyncio.create_task(self._take_turn(grammars, form))
        self._work.add(work)
        work.add_done_callback(self._forget)
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            if self._closed.is_set() and not _is_leaving():
                raise ShuttingDownError(SHUTTING_DOWN) from None
            work.cancel()
            raise
        except InvalidRequestError as error:
            error.param = "tools" if isinstance(form, ToolCallOutput) else "response_format"
            raise

    async def shut_down(self) -> None:
        """End the worker; what is still being made is given up."""
        self._closed.set()
        for work in self._work:
            work.cancel()
        await self.process.end()
        self._thread.shutdown(wait=False)

    async def _take_turn(self, grammars: GrammarCompiler, form: AnswerForm) -> CompiledGrammar:
        async with self._turn:
            if (grammar := grammars.find(form)) is not None:
                return grammar
            vocabulary = await self._on_thread(lambda: grammars.vocabulary)
            await self.process.try_out(write_grammar(form), vocabulary)
            return await self._on_thread(lambda: grammars.compile(form))

    async def _on_thread(self, work: Callable[[], _Result]) -> _Result:
        """What `work` returns. A thread cannot be stopped, so a cancelled one is waited for: its turn is not over."""
        running = asyncio.get_running_loop().run_in_executor(self._thread, work)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            await asyncio.wait({running})
            raise

    def _forget(self, work: asyncio.Task[CompiledGrammar]) -> None:
        self._work.discard(work)
        if not work.cancelled():
            work.exception()  # read, so that asyncio does not report what nobody waited for


def _is_leaving() -> bool:
    """Whether it is who asks that is cancelled, and not the work."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
