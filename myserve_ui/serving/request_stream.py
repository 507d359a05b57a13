"""Answers as async iterators, on the event loop's side of the thread border: the stream of one, and a group of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self

from myserve_ui.core.model_info import ModelInfo
from myserve_ui.core.outputs import FinishReason, RequestOutput, RequestState, RequestTimings, Usage, join_outputs
from myserve_ui.core.tokenizer import Tokenizer
from myserve_ui.engine.sequence import EngineRequest
from myserve_ui.serving.tool_use import ToolUse


@dataclass(frozen=True, slots=True)
class StreamLimits:
    heartbeat: float = 0.5
    """Seconds after which a waiting reader gets an output with no text."""
    timeout: float = 600.0
    """Seconds after which the request is ended."""


class RequestStream:
    """Outputs of one request, in order; the last has a finish_reason.

    A reader that is slower than the engine gets several outputs merged into one, so what waits here is bounded by
    the answer's own length. Leaving early (`aclose`, the end of `async with`) aborts the request.
    """

    def __init__(
        self,
        request: EngineRequest,
        *,
        model: ModelInfo,
        tokenizer: Tokenizer,
        limits: StreamLimits,
    ) -> None:
        self.request_id = request.request_id
        self.prompt_token_ids = request.prompt_token_ids
        self.model = model
        self.tokenizer = tokenizer
        self.tools: ToolUse | None = None
        """How calls stand in the text, if the answer may hold any."""
        self.from_cache = False
        """True if the whole answer was at hand before the request began."""
        self.on_abort: Callable[[str], None] = lambda _request_id: None
        """Told the request's id when the reader leaves before the end."""
        self.observers: list[Callable[[RequestOutput], None]] = []
        """Told every output of the engine, and of an abort, as it comes."""
        self.queue_position: Callable[[str], int | None] = lambda _request_id: None
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(limits.timeout, self._end_late)
        self._latest = _first_output(request)
        self._pending: RequestOutput | None = None
        self._arrived = asyncio.Event()
        self._ended = False

    def publish(self, output: RequestOutput) -> None:
        """Hand over news from the engine; called on the event loop."""
        if self._latest.finish_reason is None:
            self._latest = output
            if output.finish_reason is not None:
                self._timer.cancel()
            self._tell(output)
            self._pending = output if self._pending is None else join_outputs([self._pending, output])
            self._arrived.set()

    def failed(self, message: str, code: str | None = None) -> RequestOutput:
        """The output that ends this stream with an error."""
        return replace(
            self._without_news(),
            state=RequestState.FINISHED,
            finish_reason=FinishReason.ERROR,
            error=message,
            error_code=code,
        )

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> RequestOutput:
        if self._ended:
            raise StopAsyncIteration
        if self._pending is None and self._latest.finish_reason is None:
            await self._wait()
        output, self._pending = self._pending or self._sign_of_life(), None
        self._arrived.clear()
        self._ended = output.finish_reason is not None
        return output

    async def aclose(self) -> None:
        """Stop reading; aborts the request if it is unfinished. May be called again."""
        self._ended = True
        self._timer.cancel()
        if self._latest.finish_reason is None:
            self._latest = replace(self._without_news(), finish_reason=FinishReason.ABORT)
            self._tell(self._latest)
            self.on_abort(self.request_id)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def _tell(self, output: RequestOutput) -> None:
        for observe in self.observers:
            observe(output)

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(self._limits.heartbeat):
                await self._arrived.wait()
        except TimeoutError:
            pass  # the sign of life is what the reader gets then

    def _end_late(self) -> None:
        """Ends the request in time whether or not anybody reads."""
        message = f"The request took longer than {self._limits.timeout:g} seconds and was ended; ask for fewer tokens."
        self.on_abort(self.request_id)
        self.publish(self.failed(message))

    def _without_news(self) -> RequestOutput:
        """How the request stands, without what was said already."""
        return replace(self._latest, text_delta="", token_ids=(), logprobs=(), prompt_logprobs=())

    def _sign_of_life(self) -> RequestOutput:
        position = self.queue_position(self.request_id)
        return replace(self._without_news(), queue_position=position)


class StreamGroup:
    """The answers that one request asked for, in the order of their index, read and closed as one; at least one.

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


def _first_output(request: EngineRequest) -> RequestOutput:
    """How a request stands before the engine has seen it."""
    return RequestOutput(
        request_id=request.request_id,
        state=RequestState.WAITING,
        usage=Usage(len(request.prompt_token_ids), 0),
        timings=RequestTimings(arrival=request.arrival),
    )
