"""The classic rival: collect requests for a moment, run `generate` over all, answer when the longest is done."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from transformers import PreTrainedModel

from myserve_ui.models.baseline import generate_padded_batch

WINDOW_SECONDS = 0.010
MAX_BATCH = 16


@dataclass(frozen=True, slots=True)
class _Job:
    prompt_token_ids: Sequence[int]
    max_tokens: int
    answer: asyncio.Future[list[int]]


class WindowBatcher:
    """Greedy generation in batches of up to `max_batch` requests that arrive within `window` seconds.

    Use as `async with`: leaving ends the worker and fails what still waits with CancelledError.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        *,
        end_token_ids: frozenset[int],
        window: float = WINDOW_SECONDS,
        max_batch: int = MAX_BATCH,
    ) -> None:
        self._model = model
        self._end_token_ids = end_token_ids
        self._window = window
        self._max_batch = max_batch
        self._queue: asyncio.Queue[_Job] = asyncio.Queue()
        self._worker: asyncio.Task[None] | None = None
        self._one_thread = ThreadPoolExecutor(max_workers=1)
        self.batch_sizes: list[int] = []
        """Requests in each batch so far."""

    async def __aenter__(self) -> WindowBatcher:
        self._worker = asyncio.create_task(self._work())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._worker is not None
        self._worker.cancel()
        await asyncio.gather(self._worker, return_exceptions=True)
        self._one_thread.shutdown(wait=False)
        while not self._queue.empty():
            self._queue.get_nowait().answer.cancel()

    async def generate(self, prompt_token_ids: Sequence[int], *, max_tokens: int) -> list[int]:
        """Greedy ids after the prompt, at most `max_tokens`, an end token included; comes with its whole batch."""
        job = _Job(prompt_token_ids, max_tokens, asyncio.get_running_loop().create_future())
        await self._queue.put(job)
        return await job.answer

    async def _work(self) -> None:
        while True:
            jobs = await self._collect()
            self.batch_sizes.append(len(jobs))
            try:
                answers = await asyncio.get_running_loop().run_in_executor(self._one_thread, self._run, jobs)
            except Exception as error:
                _fail(jobs, error)
            except asyncio.CancelledError:
                for job in jobs:
                    job.answer.cancel()
                raise
            else:
                for job, answer in zip(jobs, answers, strict=True):
                    if not job.answer.done():
                        job.answer.set_result(answer)

    async def _collect(self) -> list[_Job]:
        """The first job that comes, and those that follow within the window."""
        jobs = [await self._queue.get()]
        deadline = asyncio.get_running_loop().time() + self._window
        while len(jobs) < self._max_batch:
            try:
                async with asyncio.timeout_at(deadline):
                    jobs.append(await self._queue.get())
            except TimeoutError:
                break
        return jobs

    def _run(self, jobs: Sequence[_Job]) -> list[list[int]]:
        """One `generate` for all, as long as the longest asks for; each answer cut to its own max_tokens."""
        answers = generate_padded_batch(
            self._model,
            [job.prompt_token_ids for job in jobs],
            max_tokens=max(job.max_tokens for job in jobs),
            end_token_ids=self._end_token_ids,
        )
        return [answer[: job.max_tokens] for answer, job in zip(answers, jobs, strict=True)]


def _fail(jobs: Sequence[_Job], error: Exception) -> None:
    for job in jobs:
        if not job.answer.done():
            job.answer.set_exception(error)
