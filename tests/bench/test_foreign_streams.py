"""Whatever a foreign server sends ends in a record: with numbers that fit what was sent, or with the reason."""

import gzip
import json
import zlib

import httpx2
import pytest

from myserve_ui.bench.client.chat_stream import BROKE_OFF, NO_JSON, NO_USAGE, OTHER_SHAPE
from myserve_ui.bench.client.records import Outcome
from myserve_ui.bench.loads import ClosedLoop
from myserve_ui.bench.runner import RunPlan, run_benchmark
from myserve_ui.bench.summary import summarise
from myserve_ui.bench.workload import Lengths, Workload
from tests.bench.foreign_server import ANSWER, DONE, TARGET, ForeignServer, ask, event, piece, usage

ESCAPED = json.dumps({"choices": [{"delta": {"content": "a\u2028b\u0085c\u2029d\x0be"}}]}, ensure_ascii=False)

HALVES = b"".join(
    b'data: {"choices":[{"delta":{"content":"%s"}}]}\n\n' % half for half in (b"\\ud83d", b"\\ude00\\ud83d")
)


def raw(text: str) -> bytes:
    return text.encode() + b"\n\n"


@pytest.mark.parametrize(
    ("name", "parts", "text"),
    [
        ("as it should be", [ANSWER], "one two"),
        ("line separators in JSON", [raw(f"data: {ESCAPED}"), usage(), DONE], "a\u2028b\u0085c\u2029d\x0be"),
        ("CRLF", [ANSWER.replace(b"\n", b"\r\n")], "one two"),
        ("CR", [ANSWER.replace(b"\n", b"\r")], "one two"),
        ("CRLF, cut in the middle", [ANSWER.replace(b"\n", b"\r\n")[n : n + 1] for n in range(400)], "one two"),
        ("a byte order mark", [b"\xef\xbb", b"\xbf" + ANSWER], "one two"),
        ("comments", [b": ping\n\n:\n", ANSWER], "one two"),
        ("ids and retries", [b"id: 5\nretry: 100\n" + ANSWER], "one two"),
        ("events of words", [b"event: ping\ndata: still here\n\n", ANSWER], "one two"),
        ("events of JSON", [b'event: ping\ndata: {"type": "ping"}\n\n', ANSWER], "one two"),
        ("names of events", [b"event: message\n" + ANSWER], "one two"),
        ("no space", [ANSWER.replace(b"data: ", b"data:")], "one two"),
        ("data in several lines", [b'data: {"choices":\ndata: [{"delta": {"content": "x"}}]}\n\n', usage(), DONE], "x"),
        ("no empty lines", [ANSWER.replace(b"\n\n", b"\n")], "one two"),
        ("no [DONE]", [ANSWER.removesuffix(DONE)], "one two"),
        ("no last line end", [ANSWER.removesuffix(DONE).rstrip()], "one two"),
        ("empty data", [b"data:\n\ndata: \n\n", ANSWER], "one two"),
        ("content in parts", [piece([{"type": "text", "text": "one"}, {"type": "reference"}]), usage(), DONE], "one"),
        ("thoughts in parts", [piece([{"type": "thinking", "thinking": [{"text": "hm"}]}]), ANSWER], "one two"),
        ("no error", [event({"error": None, "choices": [{"delta": {"content": "x"}}]}), usage(), DONE], "x"),
        ("no choices, no delta", [event({"choices": None}), event({"choices": [{"delta": None}]}), ANSWER], "one two"),
        ("null usage", [event({"choices": [{"delta": {"content": "x"}}], "usage": None}), usage(), DONE], "x"),
        ("usage as it grows", [usage(completion_tokens=1), ANSWER], "one two"),
        ("halves of a character", [HALVES, usage(), DONE], "\U0001f600\ufffd"),
        ("more after [DONE]", [ANSWER, event({"error": "too late"}), b"banana"], "one two"),
        ("broken after [DONE]", [ANSWER, httpx2.RemoteProtocolError("closed")], "one two"),
        ("integral floats", [ANSWER.replace(b'"completion_tokens": 2', b'"completion_tokens": 2.0')], "one two"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
async def test_odd_streams_are_read(name, parts, text):
    record = await ask(*parts)
    assert (record.outcome, record.error, record.text) == (Outcome.COMPLETED, None, text)
    assert (record.prompt_tokens, record.output_tokens) == (7, 2)
    assert record.first_token is not None


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ([piece("x"), event({"error": {"message": "Out of memory."}})], "error in the stream: Out of memory."),
        ([piece("x"), event({"error": "text"}), DONE], "error in the stream: text"),
        ([event({"error": {"code": 500}})], "error in the stream: 500"),
        ([event({"error": {"error": {"message": "deep"}}})], 'error in the stream: {"message": "deep"}'),
        ([event({"error": True})], "error in the stream: true"),
        ([event({"error": [1]})], "error in the stream: [1]"),
        ([event({"object": "error", "message": "vLLM says no"})], "error in the stream: vLLM says no"),
        ([event({"type": "error", "error": {"type": "overloaded", "message": "busy"}})], "error in the stream: busy"),
        ([event({"detail": "FastAPI says no"})], "error in the stream: FastAPI says no"),
        ([b"event: error\ndata: plain words\n\n"], "error in the stream: plain words"),
        ([b'event: error\ndata: {"message": "named"}\n\n'], "error in the stream: named"),
        ([b'error: {"message": "llama.cpp says no"}\n\n'], "error in the stream: llama.cpp says no"),
        ([event({"choices": [{"delta": {}, "finish_reason": "error"}]})], "the server ended the answer with an error"),
        ([event({"error": {"message": "a\x1b[2Jb\nc\ud800"}})], "error in the stream: a [2Jb c"),
        ([piece("x"), DONE], NO_USAGE),
        ([piece("x")], BROKE_OFF),
        ([piece("x"), b'data: {"choices": [{"del'], BROKE_OFF),
        ([], BROKE_OFF),
        ([piece("x"), b"data: banana\n\n", usage()], NO_JSON),
        ([b"data: " + b"[" * 100_000 + b"\n\n"], NO_JSON),
        ([b"data: " + b"9" * 5000 + b"\n\n"], NO_JSON),
        ([event([1]), usage()], OTHER_SHAPE),
        ([event({"choices": {"a": 1}}), usage()], OTHER_SHAPE),
        ([event({"choices": [{"delta": [1]}]}), usage()], OTHER_SHAPE),
        ([piece({"text": "x"}), usage()], OTHER_SHAPE),
        ([piece([5]), usage()], OTHER_SHAPE),
        ([b"<!doctype html><html><h1>Hi</h1></html>"], "a page of HTML"),
        ([json.dumps({"choices": [{"message": {"content": "x"}}]}).encode()], "JSON in one piece"),
        ([json.dumps({"error": {"message": "No such model"}}, indent=1).encode()], "with an error: No such model"),
        ([b"hello"], "the server answered with text/plain, and not with a stream of events"),
        ([b'\xff\xfed\x00a\x00t\x00a\x00:\x00'], "and not with a stream"),
        ([piece("x"), httpx2.ReadError("reset")], "the connection broke off (ReadError)"),
        ([piece("x"), httpx2.ReadTimeout("slow")], "did not answer in time"),
        ([piece("x"), RuntimeError("anything")], "the connection broke off (RuntimeError)"),
    ],
)  # fmt: skip
async def test_whatever_goes_wrong_is_a_sentence(parts, words):
    record = await ask(*parts, content_type="text/plain; charset=utf-8")
    assert record.outcome is Outcome.FAILED and words in record.error
    assert record.output_tokens == record.prompt_tokens == 0


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"completion_tokens": 24_231_238}, "usage claims 24,231,238 completion tokens, and at most 8 were asked for"),
        ({"completion_tokens": 10**30}, "which is no count"),
        ({"completion_tokens": 9}, "and at most 8 were asked for"),
        ({"completion_tokens": -1}, "completion_tokens of the stream's usage is -1, which is no count"),
        ({"completion_tokens": 1.5}, "is 1.5, which is no count"),
        ({"completion_tokens": "2"}, 'is "2", which is no count'),
        ({"completion_tokens": True}, "is true, which is no count"),
        ({"completion_tokens": None}, "is null, which is no count"),
        ({"completion_tokens": [2]}, "is [2], which is no count"),
        ({"completion_tokens": {"n": 2}}, "which is no count"),
        ({"completion_tokens": float("nan")}, "is NaN, which is no count"),
        ({"completion_tokens": float("inf")}, "is Infinity, which is no count"),
        ({"completion_tokens": 0}, "usage claims no completion tokens, though text came"),
        ({"prompt_tokens": 10**9}, "usage claims 1,000,000,000 prompt tokens for a request of"),
        ({"prompt_tokens": "many"}, 'prompt_tokens of the stream\'s usage is "many"'),
    ],
)
async def test_counts_that_cannot_be_are_a_failed_request(changes, words):
    record = await ask(piece("one"), piece(" two"), usage(**changes), DONE)
    assert record.outcome is Outcome.FAILED and words in record.error
    assert (record.output_tokens, record.token_gaps) == (0, [])


@pytest.mark.parametrize("value", [5, "x", [], {"completion_tokens": 2}])
async def test_a_usage_that_is_no_object_of_counts_is_told(value):
    record = await ask(piece("x"), event({"choices": [], "usage": value}), DONE)
    assert record.outcome is Outcome.FAILED and "usage" in record.error


async def test_more_tokens_than_the_stream_has_bytes_are_refused():
    record = await ask(piece("x"), usage(completion_tokens=900_000), DONE, max_tokens=1_000_000)
    assert "usage claims 900,000 completion tokens of a stream of" in record.error


@pytest.mark.parametrize(
    ("details", "cached"),
    [({"cached_tokens": 5}, 5), ({"cached_tokens": 0}, 0), ({}, None), (None, None), ({"cached_tokens": 8}, None),
     ({"cached_tokens": -1}, None), ({"cached_tokens": "5"}, None), ([5], None)],
)  # fmt: skip
async def test_cached_tokens_are_noted_where_they_can_be(details, cached):
    record = await ask(piece("x"), usage(prompt_tokens_details=details), DONE)
    assert (record.outcome, record.cached_tokens) == (Outcome.COMPLETED, cached)


async def test_characters_may_be_cut_anywhere():
    stream = b'data: {"choices":[{"delta":{"content":"\xe2\x82\xac\xf0\x9f\x98\x80"}}]}\n\n' + usage() + DONE
    record = await ask(*(stream[n : n + 1] for n in range(len(stream))))
    assert record.text == "\u20ac\U0001f600"


@pytest.mark.parametrize(("pack", "name"), [(gzip.compress, "gzip"), (zlib.compress, "deflate")])
async def test_a_compressed_stream_is_read(pack, name):
    packed = pack(ANSWER)
    record = await ask(packed[:20], packed[20:], content_encoding=name)
    assert (record.outcome, record.text) == (Outcome.COMPLETED, "one two")


async def test_what_is_badly_compressed_is_told():
    assert "compressed" in (await ask(b"no gzip at all", content_encoding="gzip")).error


@pytest.mark.parametrize(
    ("stream", "words"),
    [
        (b"data: " + b"x" * 2**20, "an event of more than"),
        (b"x" * 2**20, "an event of more than"),
        (b"data: x\n" * 2**16, "an event of more than"),
        ((b":" + b"x" * 2000 + b"\n\n") * 2200, "longer than"),
        (event({"choices": [], "x": "x" * 2000}) * 2200, "longer than"),
        (piece("x") * 2000, "pieces of text"),
    ],
)
async def test_a_stream_without_end_is_cut(stream, words):
    packed = gzip.compress(stream)
    assert words in (await ask(packed, content_encoding="gzip")).error
    assert words in (await ask(stream)).error


async def test_an_error_page_without_end_is_cut():
    record = await ask(gzip.compress(b"e" * 2**24), status=500, content_encoding="gzip")
    assert record.error.startswith("HTTP 500: eee") and len(record.error) < 150


async def test_an_error_that_never_ends_is_told_by_its_status():
    record = await ask(b"be", 1e6, b"gone", status=503)
    assert (record.outcome, record.error, record.end < 60) == (Outcome.REJECTED, "HTTP 503: be", True)


@pytest.mark.parametrize("parts", [[b": ping\n\n", 50.0] * 200, [piece("x"), 50.0] * 200])
async def test_a_stream_that_drips_ends_in_time(parts):
    record = await ask(*parts)
    assert (record.outcome, record.error) == (Outcome.FAILED, "the server did not answer in time")
    assert record.end <= 3700


async def test_a_stream_that_is_over_and_never_closed_is_complete():
    record = await ask(ANSWER, 1e6)
    assert (record.outcome, record.end) == (Outcome.COMPLETED, 0.0)


async def test_an_error_that_is_never_closed_is_not_waited_for():
    record = await ask(event({"error": "no"}), 1e6)
    assert (record.error, record.end < 10) == ("error in the stream: no", True)


async def test_the_other_rows_are_kept():
    parts = [[ANSWER], [piece(5)], [ANSWER], [usage(completion_tokens=10**30)], [RuntimeError()], [ANSWER]]

    class InTurn(httpx2.AsyncBaseTransport):
        async def handle_async_request(self, request):
            return await ForeignServer(parts.pop(0)).handle_async_request(request)

    workload = Workload(6, output_tokens=Lengths(8, 8))
    plan = RunPlan(TARGET, workload, ClosedLoop(1), warm_up=False)
    *_, last = [step async for step in run_benchmark(plan, transport=InTurn())]
    row = summarise(last.records)
    assert (row.completed, row.failed, row.output_tokens) == (3, 3, 6)
    assert len(row.errors) == 3


async def test_answers_are_not_kept_when_nothing_follows_them():
    plan = RunPlan(TARGET, Workload(2, output_tokens=Lengths(8, 8)), ClosedLoop(1), warm_up=False)
    *_, last = [step async for step in run_benchmark(plan, transport=ForeignServer([ANSWER]))]
    assert [record.text for record in last.records] == ["", ""]
