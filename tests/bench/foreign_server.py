"""A server of another make, in memory: whatever bytes it is given, in whatever pieces."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import httpx2

from myserve_ui.bench.client.client import Target, send
from myserve_ui.bench.client.records import RequestRecord
from myserve_ui.bench.workload import PlannedRequest

TARGET = Target("http://foreign/v1", "m")
USAGE = {"prompt_tokens": 7, "completion_tokens": 2}


class ForeignServer(httpx2.AsyncBaseTransport):
    """Answers every request with `parts`; an exception among them is raised in its place, a number is waited for."""

    def __init__(self, parts: Sequence[bytes | Exception | float], *, status: int = 200, **headers: str) -> None:
        self._parts, self._status = parts, status
        self._headers = {name.replace("_", "-"): value for name, value in headers.items()}

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(self._status, headers=self._headers, stream=_Parts(self._parts))


class _Parts(httpx2.AsyncByteStream):
    def __init__(self, parts: Sequence[bytes | Exception | float]) -> None:
        self._parts = parts

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for part in self._parts:
            if isinstance(part, Exception):
                raise part
            if isinstance(part, float):
                await asyncio.sleep(part)
            else:
                yield part


async def ask(*parts: bytes | Exception | float, max_tokens: int = 8, **answer: Any) -> RequestRecord:
    """The record of one request for `max_tokens` tokens."""
    planned = PlannedRequest(0, (("user", "Hi"),), max_tokens)
    async with httpx2.AsyncClient(transport=ForeignServer(parts, **answer), timeout=60.0) as client:
        return await send(client, TARGET, planned, arrival=0.0, clock=asyncio.get_running_loop().time)


def event(document: Any) -> bytes:
    return b"data: " + json.dumps(document).encode() + b"\n\n"


def piece(content: Any, **delta: Any) -> bytes:
    """An event with a part of the answer."""
    return event({"choices": [{"delta": {"content": content, **delta}}]})


def usage(**changes: Any) -> bytes:
    return event({"choices": [], "usage": USAGE | changes})


DONE = b"data: [DONE]\n\n"
ANSWER = piece("one") + piece(" two") + usage() + DONE
