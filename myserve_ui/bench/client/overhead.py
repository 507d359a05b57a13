"""What the client itself costs: the time it takes for answers that a server on loopback has ready at once."""

from __future__ import annotations

import asyncio
import json
import statistics
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from myserve_ui.bench.client.client import Target
from myserve_ui.bench.client.records import Outcome, RequestRecord
from myserve_ui.bench.loads import ClosedLoop
from myserve_ui.bench.runner import RunPlan, run_benchmark
from myserve_ui.bench.workload import Lengths, Workload
from myserve_ui.documents import Number
from myserve_ui.errors import GenerationFailedError

REQUESTS, LONG_ANSWER = 12, 256
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


@dataclass(frozen=True, slots=True)
class ClientOverhead:
    """Milliseconds. The server's own share is in them, so the client's is smaller."""

    request: Number
    """For an answer of one token."""
    token: Number
    """For each further one, in a chunk of its own."""


async def measure_client_overhead(*, tokens_per_chunk: int = 1) -> ClientOverhead:
    """Answers of one token and of many, one request at a time; takes about a fifth of a second."""
    short = await _seconds(1, tokens_per_chunk)
    long = await _seconds(LONG_ANSWER, tokens_per_chunk)
    return ClientOverhead(1000 * short, max(1000 * (long - short) / (LONG_ANSWER - 1), 0.0))


async def _seconds(tokens: int, tokens_per_chunk: int) -> float:
    records = await drive_ready_server(tokens, tokens_per_chunk=tokens_per_chunk)
    if any(record.outcome is not Outcome.COMPLETED for record in records):
        raise GenerationFailedError("The client's own overhead could not be measured on the loopback network.")
    return statistics.median(record.e2e for record in records)


async def drive_ready_server(tokens: int, *, tokens_per_chunk: int) -> tuple[RequestRecord, ...]:
    """Records of requests for `tokens` tokens that come as fast as the client takes them."""
    workload = Workload(REQUESTS, output_tokens=Lengths(tokens, tokens))
    async with _ready_server(tokens_per_chunk) as url:
        async for step in run_benchmark(RunPlan(Target(url, "ready"), workload, ClosedLoop(1), time_limit=10.0)):
            records = step.records
    return records


@asynccontextmanager
async def _ready_server(tokens_per_chunk: int) -> AsyncIterator[str]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while tokens := await _read_max_tokens(reader):
                writer.write(HEAD)
                for event in _events(tokens, tokens_per_chunk):
                    writer.write(b"%x\r\n%s\r\n" % (len(event), event))
                    await writer.drain()
                writer.write(b"0\r\n\r\n")
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass  # the client left
        finally:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    finally:
        server.close()


async def _read_max_tokens(reader: asyncio.StreamReader) -> int:
    """What the next request of a connection asks for; raises IncompleteReadError at its end."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(
        int(line.partition(b":")[2]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")
    )
    return int(json.loads(await reader.readexactly(length))["max_tokens"])


def _events(tokens: int, tokens_per_chunk: int) -> Iterator[bytes]:
    yield _event({"choices": [{"delta": {"role": "assistant", "content": ""}}]})
    for first in range(0, tokens, tokens_per_chunk):
        yield _event({"choices": [{"delta": {"content": " word" * min(tokens_per_chunk, tokens - first)}}]})
    yield _event({"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": tokens}})
    yield b"data: [DONE]\n\n"


def _event(document: dict[str, object]) -> bytes:
    return b"data: " + json.dumps(document).encode() + b"\n\n"
