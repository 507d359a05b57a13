"""Follows one running request for the plain routes: its whole text, or its pieces as plain text."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from myserve_ui.api.answer_reader import ENDED_EARLY, failure_of
from myserve_ui.core.outputs import RequestOutput
from myserve_ui.core.requests import CompletionRequest
from myserve_ui.errors import GenerationFailedError

if TYPE_CHECKING:
    from myserve_ui.serving.chat_service import ChatService
    from myserve_ui.serving.request_stream import RequestStream


async def collect(service: ChatService, request: CompletionRequest) -> tuple[str, RequestOutput]:
    """Start `request` and wait for its end: the whole text, and the last output.

    Raises what start_completion raises, and GenerationFailedError if the request failed on the way.
    """
    pieces = []
    async with await service.start_completion(request) as stream:
        async for output in stream:
            pieces.append(output.text_delta)
            if failure := failure_of(output):
                raise failure
            if output.finish_reason is not None:
                return "".join(pieces), output
    raise GenerationFailedError(ENDED_EARLY)


async def text_pieces(stream: RequestStream) -> AsyncIterator[bytes]:
    """The answer's text as UTF-8, piece by piece. Raises GenerationFailedError if it cannot be finished."""
    async for output in stream:
        if failure := failure_of(output):
            raise failure
        if output.text_delta:
            yield output.text_delta.encode()
