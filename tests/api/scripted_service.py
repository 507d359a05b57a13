"""A ChatService whose answers are written down beforehand; it records what it was asked and counts open streams."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from myserve_ui.core.model_info import EngineStatus, LoadState, ModelInfo, ServiceStatus
from myserve_ui.core.outputs import FinishReason, RequestOutput, RequestState, RequestTimings, Usage
from myserve_ui.core.requests import ChatRequest, CompletionRequest
from myserve_ui.errors import ModelNotFoundError, MyServeError
from myserve_ui.models.tokenizers.byte_tokenizer import ByteTokenizer
from myserve_ui.serving.service_metrics import ServiceMetrics
from myserve_ui.serving.tool_use import ToolUse

MODEL = ModelInfo(
    id="tiny",
    name="tiny",
    precision="full",
    state=LoadState.READY,
    dtype="float32",
    device="cpu",
    context_length=256,
    num_parameters=1000,
    weight_bytes=4000,
    kv_bytes_per_token=64,
    has_chat_template=True,
    created=1_700_000_000,
)
TOKENIZER = ByteTokenizer()
SECOND = replace(MODEL, id="org/tiny:nf4", precision="nf4", state=LoadState.UNLOADED, weight_bytes=None)
READY = ServiceStatus(
    ready=True,
    reason=None,
    code=None,
    version="0",
    default_model=MODEL.id,
    uptime_seconds=1.0,
    models=(MODEL, SECOND),
    engines=(),
)
BUSY = EngineStatus(MODEL.id, True, False, 2, 3, 0, 0, 0, 0, 0, 0, 0)


@dataclass
class Script:
    """What the next requests are answered with."""

    deltas: Sequence[str] = ("Hel", "lo", "")
    finish_reason: FinishReason = FinishReason.STOP
    error: str | None = None
    refusal: Exception | None = None
    """Raised before any output."""
    breaks_with: Exception | None = None
    """Raised after the deltas, in place of an end."""
    hangs: bool = False
    """Never ends: after the deltas only signs of life come."""
    hangs_before_start: bool = False
    tools: ToolUse | None = None
    """How calls stand in the answer's text."""


@dataclass
class ScriptedService:
    """The signatures of ChatService over a Script."""

    script: Script = field(default_factory=Script)
    health: ServiceStatus = READY
    requests: list[ChatRequest | CompletionRequest] = field(default_factory=list)
    metrics: ServiceMetrics = field(default_factory=ServiceMetrics)
    open_streams: int = 0
    cancelled_starts: int = 0

    def models(self) -> tuple[ModelInfo, ...]:
        return (MODEL, SECOND)

    def check_open(self) -> None:
        """Nothing drains here."""

    def model(self, name: str) -> ModelInfo:
        for model in self.models():
            if name in (model.id, "") or (name == "" and model is MODEL):
                return model
        raise ModelNotFoundError(f"The model '{name[:80]}' is not served here.", param="model")

    def status(self) -> ServiceStatus:
        return self.health

    async def start_chat_choices(self, request: ChatRequest, n: int) -> list[ScriptedStream]:
        return [await self._start(request) for _ in range(n)]

    async def start_completion(self, request: CompletionRequest) -> ScriptedStream:
        return await self._start(request)

    async def start_completions(self, requests: Sequence[CompletionRequest], n: int) -> list[ScriptedStream]:
        return [await self._start(request) for request in requests for _ in range(n)]

    async def tokenize(self, asked: ChatRequest | CompletionRequest, *, add_special_tokens: bool = True) -> list[int]:
        self.requests.append(asked)
        return [1, 2, 3] if add_special_tokens else [2, 3]

    async def detokenize(self, token_ids: Sequence[int], model: str) -> str:
        return TOKENIZER.decode(token_ids)

    async def _start(self, request: ChatRequest | CompletionRequest) -> ScriptedStream:
        self.requests.append(request)
        model = self.model(request.model)
        if self.script.hangs_before_start:
            await self._hang()
        if self.script.refusal is not None:
            raise self.script.refusal
        return ScriptedStream(self, model)

    async def _hang(self) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled_starts += 1


class ScriptedStream:
    """One answer. Counts itself as open until it is closed."""

    tokenizer = TOKENIZER
    prompt_token_ids = (1, 2, 3)
    request_id = "req-1"
    from_cache = False

    def __init__(self, service: ScriptedService, model: ModelInfo) -> None:
        self.model = model
        self._service = service
        self._script = service.script
        self.tools = service.script.tools
        self._position = 0
        self._ended = False
        self._closed = False
        service.open_streams += 1

    def __aiter__(self) -> ScriptedStream:
        return self

    async def __anext__(self) -> RequestOutput:
        await asyncio.sleep(0)
        if self._ended or self._closed:
            raise StopAsyncIteration
        if self._position < len(self._script.deltas):
            return self._next_delta()
        return await self._after_the_deltas()

    def _next_delta(self) -> RequestOutput:
        delta = self._script.deltas[self._position]
        self._position += 1
        is_last = self._position == len(self._script.deltas)
        ends_here = is_last and not self._script.hangs and self._script.breaks_with is None
        self._ended = ends_here
        return self._output(delta, self._script.finish_reason if ends_here else None)

    async def _after_the_deltas(self) -> RequestOutput:
        if self._script.breaks_with is not None:
            raise self._script.breaks_with
        await asyncio.sleep(0.01)
        return self._output("", None)

    def _output(self, delta: str, finish_reason: FinishReason | None) -> RequestOutput:
        return RequestOutput(
            request_id=self.request_id,
            state=RequestState.FINISHED if finish_reason else RequestState.DECODE,
            usage=Usage(prompt_tokens=3, completion_tokens=self._position, cached_tokens=2),
            timings=RequestTimings(arrival=0.0),
            text_delta=delta,
            finish_reason=finish_reason,
            error=self._script.error if finish_reason else None,
        )

    async def __aenter__(self) -> ScriptedStream:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        if not self._closed:
            self._closed = True
            self._service.open_streams -= 1


def failing(error: MyServeError) -> Script:
    """A script that refuses with `error` before any output."""
    return Script(refusal=error)
