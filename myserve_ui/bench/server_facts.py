"""Asks an OpenAI-compatible server what it serves, and waits until a model of it answers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

import httpx2

from myserve_ui.bench.benchmark_request import NamedTarget
from myserve_ui.bench.client import Target, send
from myserve_ui.bench.records import Outcome
from myserve_ui.bench.workload import PlannedRequest
from myserve_ui.core.model_info import LoadState, ModelInfo
from myserve_ui.errors import InvalidRequestError, ModelNotFoundError

LOAD_SECONDS, ASK_AGAIN_SECONDS, PATIENCE = 600.0, 1.0, 60.0
LOADING = "HTTP 503"
Transport = httpx2.AsyncBaseTransport | None


async def list_models(target: Target, *, transport: Transport = None) -> tuple[ModelInfo, ...]:
    """What the server of `target` lists, with what it tells beyond OpenAI's fields; empty if it tells nothing."""
    try:
        async with _client(transport) as client:
            answer = await client.get(f"{target.url}/models", headers=target.headers)
            return tuple(_read_model(entry) for entry in answer.json()["data"])
    except (httpx2.HTTPError, OSError, ValueError, KeyError, TypeError, AttributeError):
        return ()


def choose_targets(target: Target, models: Sequence[ModelInfo], precisions: Sequence[str]) -> tuple[NamedTarget, ...]:
    """What to measure of a server that lists `models`: `target.model` (comma separated), or `precisions`, or its first.

    A server that lists nothing gets the names as they are. Raises ModelNotFoundError for a precision that it does not
    list, InvalidRequestError where nothing is named and nothing listed.
    """
    if precisions:
        return tuple(_of_precision(target, models, precision) for precision in precisions)
    names = [name.strip() for name in target.model.split(",") if name.strip()]
    if not names and not models:
        raise InvalidRequestError(
            f"{target.url} lists no models (is it up, and the key right?); name one with --model.", param="model"
        )
    known = {info.id: info.precision for info in models}
    return tuple(
        NamedTarget(replace(target, model=name), known.get(name) or name) for name in (names or [models[0].id])
    )


async def wait_until_ready(target: Target, *, transport: Transport = None) -> AsyncIterator[str]:
    """Words while `target` loads; ends as soon as it answers, or fails for any other reason, which a run will count."""
    deadline, probe = time.monotonic() + LOAD_SECONDS, PlannedRequest(0, (("user", "Hi"),), max_tokens=1)
    async with _client(transport) as client:
        while time.monotonic() < deadline:
            record = await send(client, target, probe, arrival=time.perf_counter())
            if record.outcome is not Outcome.REJECTED or not (record.error or "").startswith(LOADING):
                return
            yield (record.error or "").removeprefix(f"{LOADING}: ")
            await asyncio.sleep(ASK_AGAIN_SECONDS)


def _of_precision(target: Target, models: Sequence[ModelInfo], precision: str) -> NamedTarget:
    for info in models:
        if precision in (info.precision, info.id):
            return NamedTarget(replace(target, model=info.id), info.precision or info.id)
    known = ", ".join(info.precision or info.id for info in models) or "nothing"
    raise ModelNotFoundError(f"The server has no {precision[:40]!r}; it lists {known}.", param="precisions")


def _read_model(entry: dict[str, Any]) -> ModelInfo:
    def number(name: str) -> int | None:
        return entry[name] if isinstance(entry.get(name), int) else None

    def word(name: str) -> str | None:
        return entry[name] if isinstance(entry.get(name), str) else None

    return ModelInfo(
        id=str(entry["id"]),
        name=word("name") or str(entry["id"]),
        precision=word("precision") or "",
        state=LoadState.READY if entry.get("loaded", True) else LoadState.UNLOADED,
        dtype=word("dtype"),
        device=word("device"),
        context_length=number("context_length"),
        num_parameters=number("num_parameters"),
        weight_bytes=number("weight_bytes"),
        kv_bytes_per_token=number("kv_bytes_per_token"),
        bytes_per_step=number("bytes_per_step"),
    )


def _client(transport: Transport) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(transport=transport, timeout=httpx2.Timeout(PATIENCE, connect=10.0), trust_env=False)
