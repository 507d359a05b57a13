"""Asks an OpenAI-compatible server what it serves, and waits until a model of it answers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import httpx2

from myserve_ui.bench.client.bounded_answer import read_answer, status_words
from myserve_ui.bench.client.client import Target, send
from myserve_ui.bench.client.foreign_words import one_line, read_json, whole_number
from myserve_ui.bench.client.records import Outcome
from myserve_ui.bench.question.question import AskedTarget, NamedTarget
from myserve_ui.bench.workload import PlannedRequest
from myserve_ui.core.model_info import LoadState, ModelInfo
from myserve_ui.errors import InvalidRequestError, ModelNotFoundError

LOAD_SECONDS, ASK_AGAIN_SECONDS, PATIENCE = 600.0, 1.0, 60.0
LOADING = "HTTP 503"
MOST_NAMES = 12
MOST_LIST_BYTES, MOST_MODELS, LONGEST_ID = 2**23, 10_000, 500
LARGEST_NUMBER = 2**53
"""Of bytes or parameters; larger ones have no exact float."""
Transport = httpx2.AsyncBaseTransport | None


@dataclass(frozen=True, slots=True)
class Listing:
    """What a server lists, or in a sentence why that is nothing."""

    models: tuple[ModelInfo, ...] = ()
    problem: str = ""


async def list_models(target: Target, *, transport: Transport = None) -> tuple[ModelInfo, ...]:
    """What the server of `target` lists, with what it tells beyond OpenAI's fields; empty if it tells nothing."""
    return (await ask_models(target, transport=transport)).models


async def ask_models(target: Target, *, transport: Transport = None) -> Listing:
    """As `list_models`, with the reason where there is nothing. Never raises."""
    place = f"{target.url}/models"
    try:
        async with _client(transport) as client, client.stream("GET", place, headers=target.headers) as response:
            answer = await read_answer(response, most=MOST_LIST_BYTES)
    except httpx2.TimeoutException:
        return Listing(problem=f"{target.url} did not answer in time.")
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError):
        return Listing(problem=f"{target.url} cannot be reached.")
    if answer.status_code != 200:
        return Listing(problem=f"{place} answers {status_words(answer)}{_hint(target, answer.status_code)}")
    return _read_listing(target, place, read_json(answer.content))


def _read_listing(target: Target, place: str, answer: Any) -> Listing:
    """The models of a list; entries that name none are left out."""
    entries = answer.get("data") if isinstance(answer, dict) else answer  # some answer the bare list
    models = tuple(filter(None, map(_read_model, entries))) if isinstance(entries, list) else ()
    if not isinstance(entries, list) or (entries and not models):
        return Listing(problem=f"{place} answers no list of models{_hint(target, 404)}")
    return Listing(models[:MOST_MODELS], "" if models else f"{target.url} lists no models; name the one to measure.")


async def find_targets(asked: AskedTarget, url: str = "") -> tuple[NamedTarget, ...]:
    """What to measure of the server of `asked`, or of the one at `url`. Raises as choose_targets."""
    target = asked.at(url or asked.url)
    targets = choose_targets(target, await ask_models(target), asked.precisions)
    return tuple(replace(named, precision=asked.name or named.precision) for named in targets)


def choose_targets(target: Target, listing: Listing, precisions: Sequence[str]) -> tuple[NamedTarget, ...]:
    """What to measure of a server: its `precisions`, or `target.model` (comma separated), or the first that it lists.

    A server that lists nothing gets the names as they are. Raises ModelNotFoundError for what a server that lists its
    models does not list, InvalidRequestError with the reason where nothing is listed that is needed.
    """
    models = listing.models
    names = [name.strip() for name in target.model.split(",") if name.strip()]
    if not models and (precisions or not names):
        raise InvalidRequestError(listing.problem, param="model")
    if precisions:
        return tuple(_of_precision(target, models, precision) for precision in precisions)
    known = {info.id: info.precision for info in models}
    if models and (missing := [name for name in names if name not in known]):
        raise ModelNotFoundError(
            f"{target.url} has no model {missing[0][:80]!r}; it lists {_joined(list(known))}.", param="model"
        )
    return tuple(
        NamedTarget(replace(target, model=name), known.get(name) or name) for name in (names or [models[0].id])
    )


async def wait_until_ready(target: Target, *, transport: Transport = None) -> AsyncIterator[str]:
    """Words while `target` loads; ends as soon as it answers, or fails for any other reason, which a run will count."""
    deadline, probe = time.monotonic() + LOAD_SECONDS, PlannedRequest(0, (("user", "Hi"),), max_tokens=1)
    async with _client(transport) as client:
        while time.monotonic() < deadline:
            try:
                async with asyncio.timeout(PATIENCE):
                    record = await send(client, target, probe, arrival=time.perf_counter())
            except TimeoutError:
                return  # it answers, however slowly
            if record.outcome is not Outcome.REJECTED or not (record.error or "").startswith(LOADING):
                return
            yield (record.error or "").removeprefix(f"{LOADING}: ")
            await asyncio.sleep(ASK_AGAIN_SECONDS)


def _of_precision(target: Target, models: Sequence[ModelInfo], precision: str) -> NamedTarget:
    for info in models:
        if precision in (info.precision, info.id):
            return NamedTarget(replace(target, model=info.id), info.precision or info.id)
    known = _joined([info.precision or info.id for info in models])
    raise ModelNotFoundError(f"The server has no {precision[:40]!r}; it lists {known}.", param="precisions")


def _joined(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def _hint(target: Target, status: int) -> str:
    """What is often forgotten, as the end of a sentence."""
    return "; does the URL end in /v1?" if status == 404 and not target.url.endswith("/v1") else "."


def _read_model(entry: object) -> ModelInfo | None:
    """What is told of a model beside its id, where it can be so; None without an id that can be written and asked."""
    model = entry.get("id") if isinstance(entry, dict) else None
    if not isinstance(entry, dict) or not isinstance(model, str):
        return None
    if not (model.isprintable() and 0 < len(model) <= LONGEST_ID):
        return None

    def number(name: str) -> int | None:
        return whole_number(entry.get(name), most=LARGEST_NUMBER)

    def word(name: str) -> str | None:
        return one_line(entry[name]) if isinstance(entry.get(name), str) else None

    return ModelInfo(
        id=model,
        name=word("name") or model,
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
