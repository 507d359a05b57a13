"""Runs given ids through an engine, beside whatever it serves, and hands over the logits before each."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from myserve_ui.core.outputs import FinishReason
from myserve_ui.core.sampling_params import SamplingDefaults, SamplingParams
from myserve_ui.engine.sequence import EngineRequest, OnLogits
from myserve_ui.errors import GenerationFailedError
from myserve_ui.serving.engine_pool import RunningEngine
from myserve_ui.serving.request_checks import check_encoded_ids, check_prompt, check_scored_ids
from myserve_ui.serving.request_stream import RequestStream, StreamGroup, StreamLimits

TIMEOUT = 3600.0


async def score_prompt(
    engine: RunningEngine,
    token_ids: Sequence[int],
    on_logits: OnLogits,
    *,
    first_scored: int = 1,
    companion: Sequence[int] = (),
) -> bool:
    """Give `on_logits` the logits that lead up to each of `token_ids` from `first_scored` on; returns when done.

    A `companion`, a shorter prompt, enters the engine first and shares the first step, for a batch of another shape;
    nothing is then taken from the prefix cache, so that it is computed in that shape too. Whether it did is returned:
    where the engine has one place left, or no room in the step, they follow each other.
    Raises ContextLengthExceededError, OverloadedError, EngineDeadError, or GenerationFailedError if a step fails.
    Leaving (cancellation) ends the work in the engine.
    """
    check_prompt(len(token_ids), engine.max_model_len + 1, "text")  # nothing is generated, so the last place is free
    check_encoded_ids(token_ids, engine.loaded, "text")
    check_scored_ids(token_ids[first_scored:], engine.loaded, "text")
    requests = [_request(engine, token_ids, on_logits, first_scored=first_scored)]
    if companion:
        requests.insert(0, _request(engine, companion, _ignore, first_scored=len(companion)))
        requests = [replace(request, cache_prompt=False) for request in requests]
    begun: dict[int, float | None] = {}
    async with StreamGroup(engine.worker.submit(requests, partial(_open_stream, engine))) as group:
        async for index, output in group.outputs():
            begun[index] = output.timings.scheduled
            if output.finish_reason is FinishReason.ERROR:
                raise GenerationFailedError(output.error or "The engine failed while it scored the text.")
    return bool(companion) and begun.get(0) is not None and begun.get(0) == begun.get(1)  # the time of their first step


def _request(
    engine: RunningEngine, token_ids: Sequence[int], on_logits: OnLogits, *, first_scored: int
) -> EngineRequest:
    return EngineRequest(
        request_id=f"score-{uuid.uuid4().hex}",
        prompt_token_ids=tuple(token_ids),
        params=SamplingParams(temperature=0.0, max_tokens=0).resolve(SamplingDefaults()),
        arrival=engine.worker.now(),
        on_logits=on_logits,
        first_scored=first_scored,
    )


def _open_stream(engine: RunningEngine, request: EngineRequest) -> RequestStream:
    limits = StreamLimits(timeout=TIMEOUT)
    return RequestStream(request, model=engine.info, tokenizer=engine.loaded.tokenizer, limits=limits)


def _ignore(_logits: object) -> None:
    pass
