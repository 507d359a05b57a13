"""A server that speaks OpenAI's stream from a script: known delays, chunk sizes and faults."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import httpx2


@dataclass
class Script:
    """How each request is answered."""

    first: float = 0.0
    """Seconds from the request to the first token."""
    gap: float = 0.0
    """Seconds between chunks."""
    tokens_per_chunk: int = 1
    usage: bool = True
    cached_tokens: int | None = None
    """Told in the usage, if it is not None."""
    break_after: int | None = None
    """Chunks after which the connection drops."""
    status_of: Callable[[int], int] = lambda _number: 200
    """HTTP status by the number of the request."""
    sleep: Callable[[float], Any] = asyncio.sleep


@dataclass
class ScriptedServer(httpx2.AsyncBaseTransport):
    """In memory, as a transport for the client."""

    script: Script
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[Any] = field(default_factory=list)
    open: int = 0
    most_open: int = 0

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        await request.aread()
        self.bodies.append(json.loads(request.content))
        self.headers.append(request.headers)
        status = self.script.status_of(len(self.bodies) - 1)
        if status != 200:
            return httpx2.Response(status, json={"error": {"message": f"scripted {status}"}})
        return httpx2.Response(200, stream=_Stream(self, self.bodies[-1]))


class _Stream(httpx2.AsyncByteStream):
    def __init__(self, server: ScriptedServer, body: dict[str, Any]) -> None:
        self._server, self._body = server, body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        server, script = self._server, self._server.script
        server.open += 1
        server.most_open = max(server.most_open, server.open)
        try:
            yield _event({"choices": [{"delta": {"role": "assistant", "content": ""}}]})
            await script.sleep(script.first)
            total = self._body["max_tokens"]
            for number, _ in enumerate(range(0, total, script.tokens_per_chunk)):
                if number:
                    await script.sleep(script.gap)
                if number == script.break_after:
                    raise httpx2.ReadError("dropped")
                yield _event({"choices": [{"delta": {"content": "x" * script.tokens_per_chunk}}]})
            if script.usage:
                usage: dict[str, Any] = {"prompt_tokens": 7, "completion_tokens": total}
                if script.cached_tokens is not None:
                    usage["prompt_tokens_details"] = {"cached_tokens": script.cached_tokens}
                yield _event({"choices": [], "usage": usage})
            yield b"data: [DONE]\n\n"
        finally:
            server.open -= 1


def _event(document: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(document)}\n\n".encode()
