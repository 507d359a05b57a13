"""What every door asks: open a stream of an answer, list the models, tell how the service is."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from myserve_ui import __version__
from myserve_ui.core.model_info import EngineStatus, LoadProgress, LoadState, ModelInfo, ServiceStatus
from myserve_ui.core.outputs import RequestOutput, RequestTimings
from myserve_ui.core.requests import ChatRequest, CompletionRequest
from myserve_ui.core.sampling_params import SamplingParams
from myserve_ui.engine.sequence import EngineRequest
from myserve_ui.errors import SHUTTING_DOWN, InvalidRequestError, ShuttingDownError
from myserve_ui.serving.engine_pool import EnginePool, RunningEngine, engine_status
from myserve_ui.serving.grammars.workshop import GrammarWorkshop
from myserve_ui.serving.request_checks import (
    check_continuation,
    check_encoded_ids,
    check_prompt,
    check_scored_ids,
    check_token_ids,
    fit_to_context,
    other_choice,
)
from myserve_ui.serving.request_stream import RequestStream, StreamLimits
from myserve_ui.serving.response_cache import AnswerRecorder, ResponseCache, response_key
from myserve_ui.serving.service_metrics import ServiceMetrics
from myserve_ui.serving.tool_use import ToolUse, offered_tools, plan_tool_use

logger = logging.getLogger(__name__)


class ChatService:
    """The narrow waist: validates a request, turns it into ids off the event loop, and opens its stream."""

    def __init__(
        self,
        pool: EnginePool,
        *,
        limits: StreamLimits | None = None,
        cache: ResponseCache | None = None,
        stall_seconds: float = 60.0,
        grace: float = 10.0,
    ) -> None:
        self.metrics = ServiceMetrics()
        self._pool = pool
        self._limits = limits or StreamLimits()
        self._cache = cache or ResponseCache(0, 0)
        self._stall_seconds = stall_seconds
        self._grace = grace
        self._started = time.monotonic()
        self._draining = False
        self.grammars = GrammarWorkshop()

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
        with self.metrics.counting_refusals(), self._use(request.model) as engine:
            check_continuation(request)
            prompt, tools = await asyncio.to_thread(_render, engine, request)
            if tools is not None:
                request = replace(request, params=replace(request.params, structured_output=tools.form))
            await _read_vocabulary(engine, request.params)
            asked = await self._choices(engine, prompt, request, n=n, field="messages")
            streams = self._answer(engine, asked, request)
            for stream in streams:
                stream.tools = tools
            return streams

    async def start_completion(self, request: CompletionRequest) -> RequestStream:
        """Open the stream of a text completion; refuses like start_chat_choices."""
        return (await self.start_completions([request], 1))[0]

    async def start_completions(self, requests: Sequence[CompletionRequest], n: int) -> list[RequestStream]:
        """Open the streams of `n` completions of each prompt, prompt by prompt; all or none.

        The requests ask the same model. Refuses like start_chat_choices.
        """
        with self.metrics.counting_refusals(), self._use(requests[0].model) as engine:
            await _read_vocabulary(engine, requests[0].params)
            asked: list[EngineRequest] = []
            for index, request in enumerate(requests):
                field = "prompt" if len(requests) == 1 else f"prompt[{index}]"
                prompt = await self._completion_prompt(engine, request.prompt, field)
                asked += await self._choices(engine, prompt, request, n=n, field=field)
            return self._answer(engine, asked, requests[0])

    async def tokenize(self, asked: ChatRequest | CompletionRequest, *, add_special_tokens: bool = True) -> list[int]:
        """The prompt's ids: of the rendered chat, or of the text. Refuses like start_chat_choices."""
        with self._use(asked.model) as engine:
            if isinstance(asked, ChatRequest):
                return (await asyncio.to_thread(_render, engine, asked))[0]
            if not isinstance(asked.prompt, str):
                return list(asked.prompt)
            encode = engine.loaded.tokenizer.encode
            token_ids = await asyncio.to_thread(encode, asked.prompt, add_special_tokens=add_special_tokens)
            check_encoded_ids(token_ids, engine.loaded, "content")
            return token_ids

    async def detokenize(self, token_ids: Sequence[int], model: str) -> str:
        """The text of `token_ids`, special tokens left out. Raises InvalidRequestError for an unknown id."""
        with self._use(model) as engine:
            loaded = engine.loaded
            check_token_ids(token_ids, max(loaded.tokenizer.vocab_size, loaded.num_input_ids), "tokens")
            return await asyncio.to_thread(loaded.tokenizer.decode, token_ids)

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
            response_cache=self._cache.status(),
        )

    def drain(self) -> None:
        """Take no new requests from now on."""
        self._draining = True

    async def shut_down(self) -> None:
        """Take nothing new, let running requests finish within the grace time, then end the engines."""
        self.drain()
        try:
            async with asyncio.timeout(self._grace):
                await self._pool.wait_until_idle()
        except TimeoutError:
            if unfinished := self.status().num_unfinished:
                logger.warning("unfinished answers that are cut off after %g s of grace: %d", self._grace, unfinished)
        await self.grammars.shut_down()
        await self._pool.shut_down()

    def check_open(self) -> None:
        """Raise ShuttingDownError once the app drains: for what was not begun before."""
        if self._draining:
            raise ShuttingDownError(SHUTTING_DOWN)

    @contextmanager
    def _use(self, model: str) -> Iterator[RunningEngine]:
        """The engine of `model`, which makes way for no other while a request for it is prepared."""
        self.check_open()
        with self._pool.hold(model):
            yield self._pool.engine(model)

    async def _completion_prompt(self, engine: RunningEngine, prompt: str | tuple[int, ...], field: str) -> list[int]:
        tokenizer = engine.loaded.tokenizer
        if not isinstance(prompt, str):
            check_token_ids(prompt, engine.loaded.num_input_ids, field)
            return list(prompt)
        token_ids = await asyncio.to_thread(tokenizer.encode, prompt)
        if not token_ids and tokenizer.bos_token_id is not None:
            token_ids = [tokenizer.bos_token_id]
        check_encoded_ids(token_ids, engine.loaded, field)
        return token_ids

    async def _choices(
        self, engine: RunningEngine, prompt: list[int], asked: ChatRequest | CompletionRequest, *, n: int, field: str
    ) -> list[EngineRequest]:
        """Requests for `n` answers to the prompt; `field` is what the client called the prompt."""
        check_prompt(len(prompt), engine.max_model_len, field)
        if asked.params.prompt_logprobs:
            check_scored_ids(prompt, engine.loaded, field)
        fitted = fit_to_context(asked.params, len(prompt), engine.max_model_len, default=asked.default_max_tokens)
        params = fitted.resolve(engine.loaded.defaults)
        vocab_size = engine.loaded.tokenizer.vocab_size
        check_token_ids(params.stop_token_ids, vocab_size, "stop_token_ids")
        check_token_ids([token_id for token_id, _ in params.logit_bias], vocab_size, "logit_bias")
        form = params.structured_output
        grammar = None if form is None else await self.grammars.compile(engine.grammars, form)
        first = EngineRequest(
            request_id=f"req-{uuid.uuid4().hex}",
            prompt_token_ids=tuple(prompt),
            params=params,
            arrival=engine.worker.now(),
            cache_prompt=asked.cache_prompt,
            grammar=grammar,
        )
        return [first, *(other_choice(first, choice) for choice in range(1, n))]

    def _answer(
        self, engine: RunningEngine, requests: Sequence[EngineRequest], asked: ChatRequest | CompletionRequest
    ) -> list[RequestStream]:
        """Replay the answers if all of them are at hand; else queue the requests, all or none."""
        self.check_open()  # the drain may have begun while they were prepared
        model, owner = engine.info.id, asked.cache_owner
        keys = [response_key(request, model=model, owner=owner) for request in requests if asked.cache_response]
        known = [key for key in keys if key is not None]
        if not known:
            return engine.worker.submit(requests, partial(self._open, engine))
        if (answers := self._cache.find(known)) is not None:
            return [self._replay(engine, *pair) for pair in zip(requests, answers, strict=True)]
        streams = engine.worker.submit(requests, partial(self._open, engine))
        for stream, key in zip(streams, known, strict=True):
            stream.observers.append(AnswerRecorder(self._cache, key).see)
        return streams

    def _replay(self, engine: RunningEngine, request: EngineRequest, answer: RequestOutput) -> RequestStream:
        """The stream of an answer that is at hand; the engine does not hear of it."""
        stream = self._open(engine, request)
        stream.from_cache = True
        timings = RequestTimings(request.arrival, num_output_tokens=answer.usage.completion_tokens, from_cache=True)
        stream.publish(replace(answer, request_id=request.request_id, timings=timings))
        return stream

    def _open(self, engine: RunningEngine, request: EngineRequest) -> RequestStream:
        tokenizer = engine.loaded.tokenizer
        stream = RequestStream(request, model=engine.info, tokenizer=tokenizer, limits=self._limits)
        stream.observers.append(self.metrics.meter(engine.info.id).see)
        return stream

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


def _render(engine: RunningEngine, request: ChatRequest) -> tuple[list[int], ToolUse | None]:
    """The chat's prompt, and how its answers may call functions. Slow: keep it off the event loop."""
    tokenizer = engine.loaded.tokenizer
    tools = plan_tool_use(request, tokenizer)
    prompt = tokenizer.render_chat(
        request.messages, tools=offered_tools(request), continue_final_message=request.continue_final_message
    )
    check_encoded_ids(prompt, engine.loaded, "messages")
    return prompt, tools


async def _read_vocabulary(engine: RunningEngine, params: SamplingParams) -> None:
    """Log-probabilities are told with the tokens' bytes; reading those takes long enough to be kept off the loop."""
    if params.logprobs is None:
        return
    try:
        await asyncio.to_thread(engine.loaded.tokenizer.token_bytes)
    except InvalidRequestError as error:
        error.param = "logprobs"
        raise
