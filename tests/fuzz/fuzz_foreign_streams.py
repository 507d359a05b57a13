"""Answers of foreign servers, odd in every way: each ends as one record, with numbers that fit or with a sentence.

The promise: no exception; a completed request has counts that the bytes sent and the tokens asked for allow; any other
has a short sentence on one line; memory and time are bounded by what was asked for, whatever the server says.
"""

from __future__ import annotations

import gzip
import json
import random
import zlib
from collections.abc import Callable
from typing import Any

import httpx2

from myserve_ui.bench.client.chat_stream import HIDDEN_PROMPT_TOKENS, bounds_for
from myserve_ui.bench.client.client import Target
from myserve_ui.bench.client.records import Outcome, RequestRecord
from myserve_ui.bench.documents.rows import RequestEntry, make_row, relative_records
from myserve_ui.bench.limits import Limits
from myserve_ui.bench.loads import ClosedLoop
from myserve_ui.bench.question.question import NamedTarget
from tests.bench.foreign_server import ask
from tests.bench.virtual_time import VirtualTimeLoop

TEXTS = (
    "x",
    " word",
    "\u20ac",
    "\U0001f600",
    "\u2028",
    "\u0085\x0b\x0c",
    "\ud83d",
    "\x00",
    "\x1b[2J",
    "",
    "[DONE]",
    "data: ",
)
NUMBERS = (
    0,
    1,
    2,
    7,
    8,
    9,
    -1,
    1.5,
    2.0,
    "2",
    True,
    None,
    [2],
    {"n": 2},
    24_231_238,
    10**30,
    float("nan"),
    float("inf"),
)
SCALARS = (None, True, False, 0, -1, 0.5, "", "text", [], {}, [None], {"message": "m"}, [[[]]], float("nan"))
LINE_ENDS = ("\n", "\r\n", "\r")
SENTENCE = 200


def trial(rng: random.Random) -> None:
    """One answer, asked for on a loop whose time jumps."""
    max_tokens = rng.choice((1, 8, 200))
    status = rng.choice((200,) * 9 + (206, 302, 400, 429, 500, 503))
    parts, headers = _transported(_body(rng, max_tokens), rng)
    loop = VirtualTimeLoop()
    try:
        record = loop.run_until_complete(ask(*parts, max_tokens=max_tokens, status=status, **headers))
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
    received = sum(len(part) for part in parts if isinstance(part, bytes))
    _check(record, max_tokens, status=status, received=2000 * received)


def _check(record: RequestRecord, max_tokens: int, *, status: int, received: int) -> None:
    bounds = bounds_for(max_tokens)
    assert 0 <= record.sent <= record.end < 4000, f"it took {record.end} s"
    assert len(record.chunk_times) <= bounds.pieces + 1 and len(record.text) <= bounds.stream_bytes
    assert list(record.chunk_times) == sorted(record.chunk_times)
    record.text.encode()
    if record.outcome is Outcome.COMPLETED:
        assert status == 200 and record.error is None
        assert type(record.output_tokens) is int and 0 <= record.output_tokens <= min(max_tokens, received)
        assert type(record.prompt_tokens) is int and 0 <= record.prompt_tokens <= HIDDEN_PROMPT_TOKENS + 1000
        assert record.cached_tokens is None or 0 <= record.cached_tokens <= record.prompt_tokens
        assert record.output_tokens or not record.chunk_times
    else:
        assert record.outcome in (Outcome.FAILED, Outcome.REJECTED)
        assert record.error and record.error.isprintable() and len(record.error) <= SENTENCE, repr(record.error)
        assert record.output_tokens == 0
    _check_row(record)


def _check_row(record: RequestRecord) -> None:
    """It can be counted, written and read."""
    (relative,) = relative_records([record])
    row = make_row(NamedTarget(Target("http://x/v1", "m")), ClosedLoop(1), [relative], Limits())
    json.dumps(row.model_dump(mode="json"), allow_nan=False)
    written = json.dumps(RequestEntry.of(relative, 0).model_dump(mode="json"), allow_nan=False)
    assert RequestEntry.model_validate(json.loads(written)).record() == relative


def _body(rng: random.Random, max_tokens: int) -> bytes:
    if rng.random() < 0.1:
        return rng.choice(_no_streams())(rng)
    end = rng.choice(LINE_ENDS)
    events = [_event(rng, end) for _ in range(rng.randrange(12))]
    if rng.random() < 0.8:
        events.append(_written(_chunk(None, usage=_usage(rng, max_tokens)), rng, end))
    if rng.random() < 0.8:
        events.append(f"data: [DONE]{end}{end}")
    if rng.random() < 0.1:
        rng.shuffle(events)
    text = "".join(events).encode("utf-8", errors="surrogatepass")
    return (b"\xef\xbb\xbf" if rng.random() < 0.1 else b"") + text


def _event(rng: random.Random, end: str) -> str:
    kind = rng.random()
    if kind < 0.6:
        return _written(_chunk(_delta(rng)), rng, end)
    if kind < 0.7:
        return _written(rng.choice((_chunk(_scramble(rng, 3)), _scramble(rng, 3))), rng, end)
    if kind < 0.75:
        return _written({"error": rng.choice(SCALARS)} | (_chunk(_delta(rng)) if rng.random() < 0.5 else {}), rng, end)
    return rng.choice(
        (
            f": comment{end}{end}",
            f"event: ping{end}data: {rng.choice(('ping', '{}', ''))}{end}{end}",
            f"event: error{end}data: {rng.choice(('words', '{}', json.dumps({'message': 'm'})))}{end}{end}",
            f"error: {rng.choice(('words', json.dumps({'message': 'm'})))}{end}{end}",
            f"data: {'[' * rng.choice((1, 10, 100_000))}{end}{end}",
            f"data: {'9' * rng.choice((1, 5000))}{end}{end}",
            f"data: banana{end}{end}",
            f"id: 5{end}retry: x{end}",
            f"data{end}{end}",
            end,
        )
    )


def _written(document: Any, rng: random.Random, end: str) -> str:
    """As an event; now and then over several lines, or with no empty line after it."""
    text = json.dumps(document, ensure_ascii=rng.random() < 0.5, indent=1 if rng.random() < 0.1 else None)
    head = rng.choice(("data: ", "data:"))
    return "".join(f"{head}{line}{end}" for line in text.split("\n")) + (end if rng.random() < 0.9 else "")


def _chunk(delta: Any, **fields: Any) -> dict[str, Any]:
    return {"id": "c", "created": 1, "choices": [] if delta is None else [{"index": 0, "delta": delta}], **fields}


def _delta(rng: random.Random) -> dict[str, Any]:
    text = rng.choice(TEXTS)
    return rng.choice(
        (
            {"content": text},
            {"content": text},
            {"content": text},
            {"role": "assistant", "content": ""},
            {"content": [{"type": "text", "text": text}, {"type": "thinking", "thinking": [text]}]},
            {"content": rng.choice(SCALARS)},
            {"reasoning_content": text},
            {},
        )
    )


def _usage(rng: random.Random, max_tokens: int) -> Any:
    if rng.random() < 0.1:
        return rng.choice(SCALARS)
    usage = {"prompt_tokens": 7, "completion_tokens": rng.randrange(max_tokens + 1)}
    if rng.random() < 0.4:
        usage[rng.choice(("prompt_tokens", "completion_tokens"))] = rng.choice(NUMBERS)
    if rng.random() < 0.4:
        usage["prompt_tokens_details"] = rng.choice((*SCALARS, {"cached_tokens": rng.choice(NUMBERS)}))
    return usage


def _scramble(rng: random.Random, depth: int) -> Any:
    if depth == 0 or rng.random() < 0.4:
        return rng.choice((*SCALARS, *NUMBERS, *TEXTS))
    if rng.random() < 0.5:
        return [_scramble(rng, depth - 1) for _ in range(rng.randrange(3))]
    names = ("choices", "delta", "content", "usage", "error", "message", "completion_tokens", "detail", "object", "x")
    return {rng.choice(names): _scramble(rng, depth - 1) for _ in range(rng.randrange(4))}


def _no_streams() -> tuple[Callable[[random.Random], bytes], ...]:
    return (
        lambda rng: rng.randbytes(rng.randrange(2000)),
        lambda rng: b"<html><body>502 Bad Gateway</body></html>",
        lambda rng: json.dumps(_scramble(rng, 4)).encode(),
        lambda rng: json.dumps({"error": rng.choice(SCALARS)}).encode(),
        lambda rng: rng.choice((b"data: ", b": ", b"", b"data: x\n")) * rng.choice((1, 1000, 60_000)),
        lambda rng: json.dumps({"choices": [{"message": {"content": "x"}}]}, indent=rng.choice((None, 1))).encode(),
    )


def _transported(body: bytes, rng: random.Random) -> tuple[list[bytes | Exception | float], dict[str, str]]:
    """The body as it comes: compressed or not, in pieces, late, broken off, or never ending."""
    headers = {"content_type": rng.choice(("text/event-stream", "application/json", "text/html", "x\u00e4", ""))}
    if rng.random() < 0.15:
        name, pack = rng.choice((("gzip", gzip.compress), ("deflate", zlib.compress), ("gzip", bytes), ("br", bytes)))
        body, headers["content_encoding"] = pack(body), name
    if rng.random() < 0.2:
        body = body[: rng.randrange(len(body) + 1)]
    cuts = sorted(rng.randrange(len(body) + 1) for _ in range(rng.choice((0, 3, 40))))
    parts: list[bytes | Exception | float] = [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True)]
    if rng.random() < 0.2:
        place = rng.randrange(len(parts) + 1)
        parts[place:place] = [rng.choice((0.5, 100.0, 1e6, *_breaks()))]
    return parts, headers


def _breaks() -> tuple[Exception, ...]:
    return (
        httpx2.ReadError("reset"),
        httpx2.RemoteProtocolError("closed"),
        httpx2.ReadTimeout("slow"),
        ConnectionResetError(),
        RuntimeError("anything"),
        ValueError("anything"),
    )
