"""Several streams of one request, read as one and closed as one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from types import TracebackType
from typing import Self

from myserve_ui.core.model_info import ModelInfo
from myserve_ui.core.outputs import RequestOutput
from myserve_ui.serving.request_stream import RequestStream


class StreamGroup:
    """The answers that one request asked for, in the order of their index; at least one.

    Closing the group, as the end of `async with` does, aborts every answer that is unfinished.
    """

    def __init__(self, streams: Sequence[RequestStream]) -> None:
        self.streams = tuple(streams)

    @property
    def model(self) -> ModelInfo:
        return self.streams[0].model

    async def outputs(self) -> AsyncIterator[tuple[int, RequestOutput]]:
        """Outputs of all streams as they arrive, each with the index of its stream; ends when all have ended."""
        if len(self.streams) == 1:
            async for output in self.streams[0]:
                yield 0, output
            return
        reading = {self._read(index): index for index in range(len(self.streams))}
        try:
            while reading:
                done, _ = await asyncio.wait(reading, return_when=asyncio.FIRST_COMPLETED)
                for task in sorted(done, key=reading.__getitem__):
                    index, news = reading.pop(task), task.result()
                    if news is not None:
                        yield index, news
                        reading[self._read(index)] = index
        finally:
            for task in reading:
                task.cancel()
            await asyncio.gather(*reading, return_exceptions=True)

    async def aclose(self) -> None:
        """Close every stream. May be called again."""
        for stream in self.streams:
            await stream.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def _read(self, index: int) -> asyncio.Task[RequestOutput | None]:
        return asyncio.create_task(_next(self.streams[index]))


async def _next(stream: RequestStream) -> RequestOutput | None:
    """The stream's next output; None at its end."""
    return await anext(stream, None)
