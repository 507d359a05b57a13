"""A ChatService that plays a script: no engine, no weights, every delay and failure at the test's will."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace

from myserve_ui.core.model_info import EngineStatus, LoadProgress, LoadState, ModelInfo, ServiceStatus
from myserve_ui.core.outputs import FinishReason, RequestOutput, RequestState, RequestTimings, Usage
from myserve_ui.core.requests import ChatRequest
from myserve_ui.errors import ContextLengthExceededError, ModelNotFoundError, MyServeError, PrecisionUnavailableError

FULL = ModelInfo(
    "tiny", "tiny", "full", LoadState.READY, dtype="fp32", device="cpu", context_length=256, weight_bytes=538_000_000
)
NF4 = replace(FULL, id="tiny:nf4", precision="nf4", state=LoadState.UNLOADED, weight_bytes=None)
INT8 = replace(
    NF4, id="tiny:int8", precision="int8", state=LoadState.UNAVAILABLE, reason="int8 needs a GPU; there is none."
)


@dataclass
class ScriptedStream:
    """Plays `pieces`, one every `pause` seconds; counts itself in and out of the service's `running` set."""

    service: ScriptedService
    request: ChatRequest
    model: ModelInfo
    pieces: list[str]
    request_id: str = "req-1"
    prompt_token_ids: tuple[int, ...] = (1, 2, 3, 4)
    is_aborted: bool = False
    _played: int = 0
    _waited: int = 0
    _is_over: bool = False
    _arrival: float = field(default_factory=time.monotonic)

    async def __aenter__(self) -> ScriptedStream:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __aiter__(self) -> ScriptedStream:
        return self

    async def __anext__(self) -> RequestOutput:
        if self._is_over:
            raise StopAsyncIteration
        if self._waited < self.service.wait_outputs:
            self._waited += 1
            await asyncio.sleep(0.05)
            return self._output(RequestState.WAITING, queue_position=2)
        await asyncio.sleep(self.service.pause)
        if self.service.fail_after is not None and self._played >= self.service.fail_after:
            self._finish()
            return self._output(
                RequestState.FINISHED, finish_reason=FinishReason.ERROR, error="The step failed. Try again."
            )
        if self._played == len(self.pieces):
            self._finish()
            return self._output(RequestState.FINISHED, finish_reason=FinishReason.STOP)
        self._played += 1
        return self._output(RequestState.DECODE, text_delta=self.pieces[self._played - 1])

    async def aclose(self) -> None:
        if not self._is_over:
            self.is_aborted = True
            self.service.num_aborted += 1
        self._finish()

    def _finish(self) -> None:
        self._is_over = True
        self.service.running.discard(id(self))

    def _output(self, state: RequestState, **changes: object) -> RequestOutput:
        start = self._arrival
        has_token = self._played > 0
        timings = RequestTimings(
            start,
            scheduled=start + 0.002,
            first_token=start + 0.05 if has_token else None,
            last_token=start + 0.05 * self._played if has_token else None,
            num_output_tokens=self._played,
        )
        usage = Usage(len(self.prompt_token_ids), self._played, cached_tokens=2)
        return RequestOutput(self.request_id, state, usage, timings, **changes)  # type: ignore[arg-type]


@dataclass
class ScriptedService:
    """Same signatures as serving.chat_service.ChatService."""

    answer: str | None = None
    """None: echo the last message."""
    pause: float = 0.0
    wait_outputs: int = 0
    fail_after: int | None = None
    refusal: MyServeError | None = None
    longest_message: int = 2000
    catalog: dict[str, ModelInfo] = field(default_factory=lambda: {model.id: model for model in (FULL, NF4, INT8)})
    requests: list[ChatRequest] = field(default_factory=list)
    running: set[int] = field(default_factory=set)
    num_aborted: int = 0

    def models(self) -> tuple[ModelInfo, ...]:
        return tuple(self.catalog.values())

    def check_open(self) -> None:
        """Nothing drains here."""

    def model(self, name: str) -> ModelInfo:
        try:
            return self.catalog[name or FULL.id]
        except KeyError:
            raise ModelNotFoundError(f"There is no model {name!r}; try tiny.", param="model") from None

    def status(self) -> ServiceStatus:
        engine = EngineStatus("tiny", True, False, len(self.running), 0, 0, 4096, 0, 0, 0, 0, 0)
        return ServiceStatus(True, None, None, "0", FULL.id, 1.0, self.models(), (engine,))

    async def load(self, model: str) -> AsyncIterator[LoadProgress]:
        info = self.model(model)
        if info.state is LoadState.UNAVAILABLE:
            raise PrecisionUnavailableError(str(info.reason))
        if info.state is LoadState.READY:
            return
        for step in range(5):
            self.catalog[info.id] = replace(info, state=LoadState.LOADING)
            yield LoadProgress(info.id, "reading weights", step / 5)
            await asyncio.sleep(self.pause)
        self.catalog[info.id] = replace(info, state=LoadState.READY, weight_bytes=180_000_000)

    async def start_chat(self, request: ChatRequest) -> ScriptedStream:
        self.requests.append(request)
        if self.refusal:
            raise self.refusal
        text = request.messages[-1].content
        if len(text) > self.longest_message:
            raise ContextLengthExceededError(
                f"The prompt has {len(text)} tokens, the context is {self.longest_message}. Shorten the message."
            )
        answer = text if self.answer is None else self.answer
        pieces = [word + " " for word in answer.split(" ")]
        pieces[-1] = pieces[-1][:-1]
        stream = ScriptedStream(self, request, self.model(request.model), pieces)
        self.running.add(id(stream))
        return stream
