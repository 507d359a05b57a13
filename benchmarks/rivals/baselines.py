"""What people run without an engine, ready to be measured: greedy answers of exactly the length asked for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from typing import Any, Protocol

from transformers import PreTrainedModel

from benchmarks.rivals.window_batcher import WindowBatcher
from myserve_ui.models.baseline import OnToken, generate_plainly, generate_without_cache

NO_END: frozenset[int] = frozenset()
Generate = Callable[..., list[int]]


class Rival(Protocol):
    """Answers one prompt; `async with` starts and ends it."""

    async def __aenter__(self) -> Rival: ...

    async def __aexit__(self, *_: object) -> None: ...

    def answer(self, prompt_token_ids: Sequence[int], max_tokens: int) -> AsyncIterator[list[int]]:
        """Greedy ids, in the pieces in which they become known."""
        ...


class OneAtATime:
    """A request waits until the one before it is done, also if nobody reads that one; tokens come as they are made."""

    def __init__(self, model: PreTrainedModel, generate: Generate) -> None:
        self._model = model
        self._generate = generate
        self._one_thread = ThreadPoolExecutor(max_workers=1)

    async def __aenter__(self) -> OneAtATime:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._one_thread.shutdown(wait=False, cancel_futures=True)

    async def answer(self, prompt_token_ids: Sequence[int], max_tokens: int) -> AsyncIterator[list[int]]:
        """One id at a time."""
        loop, arrived = asyncio.get_running_loop(), asyncio.Queue[int]()

        def on_token(token_id: int) -> None:
            loop.call_soon_threadsafe(arrived.put_nowait, token_id)

        work = loop.run_in_executor(self._one_thread, self._run, prompt_token_ids, max_tokens, on_token)
        for _ in range(max_tokens):
            yield [await _next_or_failure(arrived, work)]
        await work

    def _run(self, prompt_token_ids: Sequence[int], max_tokens: int, on_token: OnToken) -> list[int]:
        return self._generate(
            self._model, prompt_token_ids, max_tokens=max_tokens, end_token_ids=NO_END, on_token=on_token
        )


class InWindows:
    """Requests of one moment go through `generate` together; all are answered when the longest is done."""

    def __init__(self, model: PreTrainedModel) -> None:
        self._batcher = WindowBatcher(model, end_token_ids=NO_END)
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> InWindows:
        await self._stack.enter_async_context(self._batcher)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def answer(self, prompt_token_ids: Sequence[int], max_tokens: int) -> AsyncIterator[list[int]]:
        """All ids at once."""
        yield await self._batcher.generate(prompt_token_ids, max_tokens=max_tokens)


RIVALS: dict[str, Callable[[PreTrainedModel], Rival]] = {
    "generate": lambda model: OneAtATime(model, generate_plainly),
    "windows": InWindows,
    "no-cache": lambda model: OneAtATime(model, generate_without_cache),
}
"""transformers' `generate` one at a time; the same in batches of a moment; a full forward for each token."""


async def _next_or_failure(arrived: asyncio.Queue[int], work: asyncio.Future[list[int]]) -> int:
    """The next id, or what `work` raised."""
    getting = asyncio.ensure_future(arrived.get())
    either: set[asyncio.Future[Any]] = {getting, work}
    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    if work.done() and (error := work.exception()) is not None:
        getting.cancel()
        raise error
    return await getting
