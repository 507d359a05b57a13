"""Reads a foreign server's whole answer, up to a bound: what it says beyond that is not asked for."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress

import httpx2

from myserve_ui.bench.client.foreign_words import error_words, one_line, read_json

MOST_ERROR_BYTES = 2**16
PATIENCE = 10.0


async def read_answer(response: httpx2.Response, *, most: int = MOST_ERROR_BYTES) -> httpx2.Response:
    """The first `most` bytes of `response`, decompressed, as an answer that has been read; what came in time."""
    body = bytearray()
    with suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE), aclosing(response.aiter_bytes()) as parts:
            async for part in parts:
                body += part[: most - len(body)]
                if len(body) >= most:
                    break
    return httpx2.Response(response.status_code, content=bytes(body))


def status_words(response: httpx2.Response) -> str:
    """HTTP 401: and the server's own words, if it has any; no full stop at the end. `response` has been read."""
    words = _message_of(response).strip().rstrip(".")
    return f"HTTP {response.status_code}: {words}" if words else f"HTTP {response.status_code}"


def _message_of(response: httpx2.Response) -> str:
    words = error_words(read_json(response.content))
    return one_line(response.content[:4096].decode("utf-8", errors="replace")) if words is None else words
