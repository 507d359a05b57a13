"""A small OpenAI-compatible door over a rival, so that the same client measures it and the app."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse

from benchmarks.rivals.baselines import RIVALS, Rival
from myserve_ui.core.requests import Message
from myserve_ui.engine.detokenizer import Detokenizer
from myserve_ui.errors import InvalidRequestError, ModelLoadError
from myserve_ui.kernels.threads import bound_threads
from myserve_ui.model_settings import catalog_of, load_options
from myserve_ui.models.loaded_model import LoadedModel
from myserve_ui.models.loading.loader import fetch_model, load_model
from myserve_ui.models.tiny import build_tiny_loaded_model
from myserve_ui.server.launch import listen
from myserve_ui.serving.step_loop import on_own_thread
from myserve_ui.settings import Settings

READY = "ready: "


def serve_rival(kind: str, settings: Settings, announce: Callable[[str], None]) -> None:
    """Load the model of `settings` and serve it as the rival `kind` until a signal comes; `announce` gets the address.

    Raises InvalidRequestError for an unknown kind, ModelLoadError, SettingsError.
    """
    if kind not in RIVALS:
        raise InvalidRequestError(f"There is no rival {kind[:40]!r}; choose one of {', '.join(RIVALS)}.")
    bound_threads(settings.threads)
    loaded = asyncio.run(on_own_thread(_load, settings))
    listener = listen(settings.host, settings.port)
    app = create_rival_app(kind, loaded)
    announce(f"{READY}http://{settings.host}:{listener.getsockname()[1]}/v1")
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=1))
    asyncio.run(server.serve(sockets=[listener]))


def create_rival_app(kind: str, loaded: LoadedModel) -> FastAPI:
    """/v1/models and streamed /v1/chat/completions over `loaded`. Answers are greedy and as long as max_tokens says."""
    rival = RIVALS[kind](loaded.module)

    @asynccontextmanager
    async def life_span(_app: FastAPI) -> AsyncIterator[None]:
        async with rival:
            yield

    app = FastAPI(lifespan=life_span, openapi_url=None)

    @app.get("/v1/models")
    async def models() -> Response:
        return JSONResponse({"object": "list", "data": [{"id": kind, "object": "model"}]})

    @app.post("/v1/chat/completions")
    async def chat(request: Request) -> Response:
        body = await request.json()
        messages = [Message(message["role"], message["content"]) for message in body["messages"]]
        prompt = await asyncio.to_thread(loaded.tokenizer.render_chat, messages)
        events = _events(rival, loaded, prompt, int(body["max_tokens"]))
        return StreamingResponse(events, media_type="text/event-stream")

    return app


async def _events(rival: Rival, loaded: LoadedModel, prompt: list[int], max_tokens: int) -> AsyncIterator[str]:
    detokenizer, count = Detokenizer(loaded.tokenizer.decode, prompt), 0
    yield _event([{"delta": {"role": "assistant", "content": ""}}])
    async for token_ids in rival.answer(prompt, max_tokens):
        count += len(token_ids)
        held_back = detokenizer.flush if count == max_tokens else str
        yield _event([{"delta": {"content": "".join(map(detokenizer.add, token_ids)) + held_back()}}])
    yield _event([{"delta": {}, "finish_reason": "length"}])
    usage = {"prompt_tokens": len(prompt), "completion_tokens": count, "total_tokens": len(prompt) + count}
    yield _event([], usage=usage)
    yield "data: [DONE]\n\n"


def _event(choices: list[dict[str, Any]], **fields: Any) -> str:
    numbered = [{"index": 0, "finish_reason": None, **choice} for choice in choices]
    chunk = {"id": "rival", "object": "chat.completion.chunk", "created": int(time.time()), "model": "rival"}
    return f"data: {json.dumps({**chunk, 'choices': numbered, **fields})}\n\n"


def find_model_folder(settings: Settings) -> Path:
    """The files of the model of `settings`, for servers that are not ours. Raises ModelLoadError."""
    if settings.force_echo:
        raise ModelLoadError("The echo has no files.")
    return fetch_model(catalog_of(settings).default.source, load_options(settings))


def _load(settings: Settings) -> LoadedModel:
    """The model with its own layers, as transformers has them; where the app would echo, one with random weights."""
    if settings.force_echo:
        return build_tiny_loaded_model("llama")
    catalog = catalog_of(settings)
    return load_model(catalog.default, options=replace(load_options(settings), kernels="plain"))
