"""Documents that people keep: older ones are read, foreign and damaged ones are one sentence that names the place."""

from __future__ import annotations

import json
from typing import ClassVar, Literal

import pytest

from myserve_ui.documents import Document, Flag, Number, Part, Whole
from myserve_ui.errors import InvalidRequestError


class Line(Part):
    value: Number
    count: Whole
    note: str | None = None


class Ledger(Document):
    NAME: ClassVar[str] = "ledger"
    WAY_OUT: ClassVar[str] = "Choose a ledger."
    MAX_BYTES: ClassVar[int] = 1000

    kind: Literal["ledger"] = "ledger"
    version: Whole = 2
    title: str
    is_done: Flag
    lines: tuple[Line, ...]


WHOLE = {"kind": "ledger", "title": "t", "is_done": False, "lines": [{"value": 1, "count": 2}]}


def with_line(**fields: object) -> dict[str, object]:
    return WHOLE | {"lines": [{"value": 1, "count": 2} | fields]}


def test_a_document_comes_back_as_it_was_and_what_it_does_not_know_is_left_out() -> None:
    ledger = Ledger.read(json.dumps(with_line(colour="red")))
    assert Ledger.read(json.dumps(ledger.as_json())) == ledger
    assert ledger.as_json()["lines"] == [{"value": 1.0, "count": 2, "note": None}]


def test_a_whole_number_may_be_written_with_a_point() -> None:
    assert Ledger.check(with_line(count=2.0)).lines[0].count == 2


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ({"kind": "bench"}, "The file is JSON, but no ledger. Choose a ledger."),
        ([], "The file is JSON, but no ledger. Choose a ledger."),
        ({"kind": "ledger"}, "The ledger has no title. Choose a ledger."),
        (WHOLE | {"title": 5}, "The ledger's title should be a text. Choose a ledger."),
        (WHOLE | {"is_done": 1}, "The ledger's is_done should be a flag. Choose a ledger."),
        (WHOLE | {"lines": 5}, "The ledger's lines should be a list. Choose a ledger."),
        (WHOLE | {"lines": {}}, "The ledger's lines should be a list. Choose a ledger."),
        (WHOLE | {"lines": [5]}, "The ledger's lines[0] should be an object. Choose a ledger."),
        (WHOLE | {"lines": [{"value": 1}]}, "The ledger has no lines[0].count. Choose a ledger."),
        (with_line(value="1"), "The ledger's lines[0].value should be a number. Choose a ledger."),
        (with_line(value=True), "The ledger's lines[0].value should be a number. Choose a ledger."),
        (with_line(value=10**400), "The ledger's lines[0].value should be a number. Choose a ledger."),
        (with_line(value=None), "The ledger's lines[0].value should be a number. Choose a ledger."),
        (with_line(count="2"), "The ledger's lines[0].count should be a number. Choose a ledger."),
        (with_line(count=True), "The ledger's lines[0].count should be a number. Choose a ledger."),
        (with_line(count=10**301), "The ledger's lines[0].count should be a number. Choose a ledger."),
        (with_line(count=2.5), "The ledger's lines[0].count should be a whole number. Choose a ledger."),
        (WHOLE | {"version": 3}, "The ledger is of version 3, and this program reads up to 2; update it."),
        ({"kind": "ledger", "version": 3}, "The ledger is of version 3, and this program reads up to 2; update it."),
        (WHOLE | {"version": 0}, "The ledger is of version 0, and the first is 1. Choose a ledger."),
        (WHOLE | {"version": -1}, "The ledger is of version -1, and the first is 1. Choose a ledger."),
        (WHOLE | {"version": 1.5}, "The ledger's version should be a whole number. Choose a ledger."),
        (WHOLE | {"version": "3"}, "The ledger's version should be a number. Choose a ledger."),
        (WHOLE | {"version": True}, "The ledger's version should be a number. Choose a ledger."),
        (WHOLE | {"title": "a\ud800"}, "The file has half of a surrogate pair, which is not text. Choose a ledger."),
        (WHOLE | {"a\ud800": 1}, "The file has half of a surrogate pair, which is not text. Choose a ledger."),
    ],
)
def test_what_is_no_such_document_is_one_sentence_that_names_the_place(value: object, sentence: str) -> None:
    with pytest.raises(InvalidRequestError) as found:
        Ledger.read(json.dumps(value))
    assert found.value.message == sentence


@pytest.mark.parametrize("data", [b"", b"\xff", b'{"kind": NaN}', b"1e999", b"[" * 900])
def test_what_is_no_json_is_one_sentence(data: bytes) -> None:
    with pytest.raises(InvalidRequestError, match=r"The file is not JSON\. Choose a ledger."):
        Ledger.read(data)


def test_what_is_too_large_is_not_read() -> None:
    with pytest.raises(InvalidRequestError, match="The file has 1001 bytes and may have 1000"):
        Ledger.read(b" " * 1001)


def test_a_whole_pair_of_surrogates_is_text() -> None:
    assert Ledger.read(json.dumps(WHOLE | {"title": "\U0001f600"})).title == "\U0001f600"
