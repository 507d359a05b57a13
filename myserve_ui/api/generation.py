"""Follows one running request to its end and hands back the whole text, or its pieces as plain text."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from myserve_ui.api.replies import ENDED_EARLY, failure_of
from myserve_ui.core.model_info import ModelInfo
from myserve_ui.core.outputs import RequestOutput
from myserve_ui.errors import GenerationFailedError

if TYPE_CHECKING:
    from myserve_ui.serving.request_stream import RequestStream

Request = TypeVar("Request")


async def collect(
    start: Callable[[Request], Awaitable[RequestStream]], request: Request
) -> tuple[ModelInfo, str, RequestOutput]:
    """Start `request` and wait for its end: the model that answered, the whole text, the last output.

    Raises what `start` raises, and GenerationFailedError if the request failed on the way.
    """
    pieces = []
    async with await start(request) as stream:
        async for output in stream:
            pieces.append(output.text_delta)
            if failure := failure_of(output):
                raise failure
            if output.finish_reason is not None:
                return stream.model, "".join(pieces), output
    raise GenerationFailedError(ENDED_EARLY)


async def text_pieces(stream: RequestStream) -> AsyncIterator[bytes]:
    """The answer's text as UTF-8, piece by piece. Raises GenerationFailedError if it cannot be finished."""
    async for output in stream:
        if failure := failure_of(output):
            raise failure
        if output.text_delta:
            yield output.text_delta.encode()
