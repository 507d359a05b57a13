"""Runs a benchmark from the page: progress while it goes on, Stop that keeps what is measured, then the results."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Any

import gradio as gr
from markupsafe import Markup

from myserve_ui.bench.benchmark_service import BenchmarkService
from myserve_ui.bench.question.question import BenchmarkRequest
from myserve_ui.bench.sweep import SweepProgress
from myserve_ui.core.number_words import duration
from myserve_ui.errors import MyServeError
from myserve_ui.ui.benchmark.form import BenchForm
from myserve_ui.ui.benchmark.results import ResultsPanel
from myserve_ui.ui.shared.events import QUIET, UNEXPECTED, Updates, paragraph, problem, progress_bar
from myserve_ui.ui.shared.streams import with_heartbeat

logger = logging.getLogger(__name__)

WAITING = "Waiting for its turn: one benchmark runs at a time."
STOPPED = "Stopped."
UNREADABLE = "One of the values above cannot be used; check them and run again."
NOTHING = "Stopped before anything was measured."
ONE_AT_A_TIME: dict[str, object] = {"concurrency_limit": 1, "concurrency_id": "bench"}
LONGEST_WIND_UP = 10.0
"""Seconds that Stop waits for what was measured to be kept."""


class BenchRun:
    """The Run and Stop buttons with their progress. Of a visitor it knows only whether a run goes on."""

    def __init__(self, service: BenchmarkService, form: BenchForm, results: ResultsPanel) -> None:
        self._service = service
        self._form = form
        self._results = results
        self._watches: dict[str | None, _Watch] = {}
        self._stopped: set[str | None] = set()

    def draw(self) -> None:
        """Draw into the open layout; `wire` once the results are drawn."""
        with gr.Row(elem_id="bench-buttons"):
            self._start = gr.Button("Run", variant="primary", elem_id="bench-start", scale=0, min_width=140)
            self._stop = gr.Button("Stop", variant="stop", visible=False, elem_id="bench-stop", scale=0, min_width=140)
            self.progress = gr.HTML("", elem_id="bench-progress", padding=False)

    def wire(self) -> list[Any]:
        """Connect the events; returns what may follow the end of a run, by itself or stopped."""
        outputs = [self._start, self._stop, self.progress, *self._results.outputs]
        begun = self._start.click(self.on_begin, None, outputs, queue=False, trigger_mode="once", **QUIET)
        run = begun.then(self.on_run, self._form.inputs, outputs, **ONE_AT_A_TIME, **QUIET)
        run.failure(self.on_unreadable, None, outputs, queue=False, **QUIET)
        stopped = self._stop.click(None, None, None, cancels=[run], queue=False, **QUIET).then(
            self.on_stop, None, outputs, queue=False, **QUIET
        )
        return [run.then, stopped.then]

    def on_begin(self, request: gr.Request) -> Updates:
        """At once, also while another benchmark holds the queue."""
        self._stopped.discard(request.session_hash)
        return self._buttons(running=True) | {self.progress: paragraph("working", WAITING)} | self._results.clear()

    async def on_run(self, inputs: Mapping[Any, Any], request: gr.Request) -> AsyncGenerator[Updates, None]:
        """Run one benchmark. Whatever goes wrong ends in a sentence, and the form stays as it is."""
        watch = self._watches[request.session_hash] = _Watch(await self._newest_run())
        try:
            question = self._form.read(inputs).question()
            asked = await self._service.find(question, own_url=own_url(request, self._service))
            async with aclosing(self._updates(asked)) as updates:
                async for update in updates:
                    yield update
        except MyServeError as error:
            yield self._buttons(running=False) | {self.progress: problem(error.message)}
        except Exception:
            logger.exception("a benchmark failed")
            yield self._buttons(running=False) | {self.progress: problem(UNEXPECTED)}
        finally:
            watch.has_ended.set()
        self._watches.pop(request.session_hash, None)

    def on_unreadable(self, request: gr.Request) -> Updates:
        """Gradio refused a value before `on_run` saw it, such as a file of another kind.

        It calls a run that was stopped a failure too; what that shows is `on_stop`'s to say, whichever comes first.
        """
        if request.session_hash in self._stopped or request.session_hash in self._watches:
            self._stopped.discard(request.session_hash)
            return {self._stop: gr.skip()}
        return self._buttons(running=False) | {self.progress: problem(UNREADABLE)}

    async def on_stop(self, request: gr.Request) -> Updates:
        """Show what was measured until now, as soon as it is kept."""
        buttons = self._buttons(running=False)
        self._stopped.add(request.session_hash)
        watch = self._watches.pop(request.session_hash, None)
        if watch is None:
            return buttons | {self.progress: paragraph("fine", STOPPED)}
        with suppress(TimeoutError):
            await asyncio.wait_for(watch.has_ended.wait(), LONGEST_WIND_UP)
        newest = await self._newest_run()
        if newest is None or newest == watch.newest_before:
            return buttons | {self.progress: paragraph("fine", NOTHING)}
        shown = await asyncio.to_thread(self._results.show, await self._service.load_run(newest))
        return buttons | {self.progress: paragraph("fine", STOPPED)} | shown

    async def _newest_run(self) -> str | None:
        runs = (await self._service.runs()).runs
        return runs[0].id if runs else None

    async def _updates(self, asked: BenchmarkRequest) -> AsyncGenerator[Updates, None]:
        shown = 0
        async with aclosing(with_heartbeat(self._service.run(asked))) as steps:
            async for step in steps:
                if step is None:
                    yield {self._stop: gr.skip()}
                    continue
                update = {self.progress: progress_view(step)}
                if step.document is not None:
                    shown_all = await asyncio.to_thread(self._results.show, step.document)
                    update = self._buttons(running=False) | {self.progress: ""} | shown_all
                elif len(step.rows) != shown:
                    shown = len(step.rows)
                    update |= self._results.show_rows(step.rows)
                yield update

    def _buttons(self, *, running: bool) -> Updates:
        return {self._start: gr.update(visible=not running), self._stop: gr.update(visible=running)}


@dataclass(slots=True)
class _Watch:
    """One visitor's run: by what a run that it kept can be told from older ones, and whether it is over."""

    newest_before: str | None
    has_ended: asyncio.Event = field(default_factory=asyncio.Event)


def progress_view(step: SweepProgress) -> Markup:
    """HTML of what is going on, how far it is, and how long it will take."""
    words = step.text if step.seconds_left is None else f"{step.text} · about {duration(step.seconds_left)} left"
    return progress_bar(step.done, step.total, words)


def own_url(request: gr.Request, service: BenchmarkService) -> str:
    """Base URL of this server's API as it reaches itself: the port that the visitor's request came in by."""
    address = (request.request.scope.get("server") if request.request else None) or (None, None)
    if not address[0] or not address[1]:
        return service.own.url
    host = f"[{address[0]}]" if ":" in address[0] else address[0]
    return f"http://{host}:{address[1]}/v1"
