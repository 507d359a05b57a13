"""What every door asks: open a stream of an answer, list the models, tell how the service is."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
import uuid
from collections.abc import AsyncIterator
from dataclasses import replace

from myserve_ui import __version__
from myserve_ui.core.model_info import EngineStatus, LoadProgress, LoadState, ModelInfo, ServiceStatus
from myserve_ui.core.outputs import RequestOutput
from myserve_ui.core.requests import ChatRequest, CompletionRequest
from myserve_ui.core.structured_output import StructuredOutput
from myserve_ui.engine.engine_request import EngineRequest
from myserve_ui.engine.grammar_compiler import CompiledGrammar
from myserve_ui.errors import ShuttingDownError
from myserve_ui.serving.engine_pool import EnginePool, RunningEngine, engine_status
from myserve_ui.serving.request_checks import check_prompt, check_token_ids, fit_to_context, other_choice
from myserve_ui.serving.request_stream import RequestStream, StreamLimits

logger = logging.getLogger(__name__)

COMPLETION_MAX_TOKENS = 16
"""max_tokens of a text completion that does not say, as OpenAI's reference has it."""


class ChatService:
    """The narrow waist: validates a request, turns it into ids off the event loop, and opens its stream."""

    def __init__(
        self, pool: EnginePool, *, limits: StreamLimits | None = None, stall_seconds: float = 60.0, grace: float = 10.0
    ) -> None:
        self._pool = pool
        self._limits = limits or StreamLimits()
        self._stall_seconds = stall_seconds
        self._grace = grace
        self._started = time.monotonic()
        self._draining = False

    def models(self) -> tuple[ModelInfo, ...]:
        """Every (model, precision) that can be asked for, the default first."""
        return self._pool.models()

    def model(self, name: str) -> ModelInfo:
        """One of them, the default for "". Raises ModelNotFoundError."""
        return self._pool.model(name)

    def load(self, model: str) -> AsyncIterator[LoadProgress]:
        """Load `model` or join its load; ends when it is ready. Raises ModelNotFoundError, ModelLoadError."""
        return self._pool.load(model)

    async def start_chat(self, request: ChatRequest) -> RequestStream:
        """Open the stream of a chat's next answer; refuses like start_chat_choices."""
        return (await self.start_chat_choices(request, 1))[0]

    async def start_chat_choices(self, request: ChatRequest, n: int) -> list[RequestStream]:
        """Open the streams of `n` answers to one chat, whose prompt is computed once.

        Everything that can be refused is refused here: ModelNotFoundError, ModelLoadingError (and the load starts),
        InvalidRequestError, ContextLengthExceededError, OverloadedError, ShuttingDownError, EngineDeadError.
        """
        engine = self._engine(request.model)
        render = engine.loaded.tokenizer.render_chat
        prompt = await asyncio.to_thread(
            render, request.messages, continue_final_message=request.continue_final_message
        )
        return await self._submit(engine, prompt, request, n=n, field="messages")

    async def start_completion(self, request: CompletionRequest) -> RequestStream:
        """Open the stream of a text completion; refuses like start_chat_choices."""
        return (await self.start_completion_choices(request, 1))[0]

    async def start_completion_choices(self, request: CompletionRequest, n: int) -> list[RequestStream]:
        """Open the streams of `n` completions of one prompt; refuses like start_chat_choices."""
        engine = self._engine(request.model)
        prompt = await self._completion_prompt(engine, request.prompt)
        params = request.params
        if params.max_tokens is None:
            params = replace(params, max_tokens=max(COMPLETION_MAX_TOKENS, params.min_tokens))
        return await self._submit(engine, prompt, replace(request, params=params), n=n, field="prompt")

    def status(self) -> ServiceStatus:
        """How the service stands at this moment."""
        engines = tuple(engine_status(engine, self._stall_seconds) for engine in self._pool.engines())
        models = self._pool.models()
        reason, code = self._why_not_ready(models[0], engines)
        return ServiceStatus(
            ready=reason is None,
            reason=reason,
            code=code,
            version=__version__,
            default_model=models[0].id,
            uptime_seconds=time.monotonic() - self._started,
            models=models,
            engines=engines,
        )

    def drain(self) -> None:
        """Take no new requests from now on."""
        self._draining = True

    async def shut_down(self) -> None:
        """Take nothing new, let running requests finish within the grace time, then end the engines."""
        self.drain()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._grace):
                await self._pool.wait_until_idle()
        await self._pool.shut_down()

    def _engine(self, model: str) -> RunningEngine:
        if self._draining:
            raise ShuttingDownError("The app is shutting down and takes no new requests.")
        return self._pool.engine(model)

    async def _completion_prompt(self, engine: RunningEngine, prompt: str | tuple[int, ...]) -> list[int]:
        tokenizer = engine.loaded.tokenizer
        if not isinstance(prompt, str):
            check_token_ids(prompt, tokenizer.vocab_size, "prompt")
            return list(prompt)
        token_ids = await asyncio.to_thread(tokenizer.encode, prompt)
        if token_ids or tokenizer.bos_token_id is None:
            return token_ids
        return [tokenizer.bos_token_id]

    async def _submit(
        self, engine: RunningEngine, prompt: list[int], asked: ChatRequest | CompletionRequest, *, n: int, field: str
    ) -> list[RequestStream]:
        """Queue `n` answers to the prompt, all or none; `field` is what the client called the prompt."""
        check_prompt(len(prompt), engine.max_model_len, field)
        params = fit_to_context(asked.params.resolve(engine.loaded.defaults), len(prompt), engine.max_model_len)
        check_token_ids(params.stop_token_ids, engine.loaded.tokenizer.vocab_size, "stop_token_ids")
        check_token_ids(
            [token_id for token_id, _ in params.logit_bias], engine.loaded.tokenizer.vocab_size, "logit_bias"
        )
        first = EngineRequest(
            request_id=f"req-{uuid.uuid4().hex}",
            prompt_token_ids=tuple(prompt),
            params=params,
            arrival=engine.thread.now(),
            cache_prompt=asked.cache_prompt,
            grammar=await _compile(engine, params.structured_output),
        )
        requests = [first, *(other_choice(first, choice) for choice in range(1, n))]

        def open_stream(latest: RequestOutput) -> RequestStream:
            return RequestStream(
                latest, model=engine.info, prompt_token_ids=first.prompt_token_ids, limits=self._limits
            )

        return engine.thread.submit(requests, open_stream)

    def _why_not_ready(self, default: ModelInfo, engines: tuple[EngineStatus, ...]) -> tuple[str | None, str | None]:
        if self._draining:
            return "The app is shutting down.", "shutting_down"
        if dead := [engine.model for engine in engines if not engine.alive]:
            return f"The engine of {', '.join(dead)} has stopped; restart the app.", "engine_dead"
        if default.state is LoadState.FAILED:
            return default.reason, "model_load_failed"
        if default.state is not LoadState.READY:
            return f"{default.id} is loading: {default.reason or 'not started'}.", "model_loading"
        if stalled := [engine.model for engine in engines if engine.stalled]:
            return f"The engine of {', '.join(stalled)} has work but finishes no step.", "engine_stalled"
        return None, None


async def _compile(engine: RunningEngine, output: StructuredOutput | None) -> CompiledGrammar | None:
    """The grammar of a form, made off the event loop: a large one takes half a second."""
    return None if output is None else await asyncio.to_thread(engine.grammars.compile, output)
