"""A report that was saved comes back; anything else is refused in a sentence that names the place."""

from __future__ import annotations

import json

import pytest

from myserve_ui.errors import InvalidRequestError
from myserve_ui.evaluation.fidelity import FidelityRequest
from myserve_ui.evaluation.saved_documents import read_fidelity
from tests.support.precisions import TEXT


@pytest.fixture
async def document(comparisons):
    request = FidelityRequest(TEXT, window=64, stride=32)
    return [step async for step in comparisons.report(request)][-1].document


async def test_a_saved_report_comes_back_as_it_was(document):
    assert read_fidelity(json.dumps(document).encode()) == document


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda report: report.pop("kld"), "no kld"),
        (lambda report: report["kld"].pop("p99"), "no kld.p99"),
        (lambda report: report["kld"].update(mean="much"), "kld.mean should be a number"),
        (lambda report: report["kld"].update(mean=True), "kld.mean should be a number"),
        (lambda report: report["kld"].update(mean=10**400), "kld.mean should be a number"),
        (lambda report: report.update(tokens={}), "tokens should be a list"),
        (lambda report: report["tokens"][5].pop("kld"), r"no tokens\[5\].kld"),
        (lambda report: report.update(memory=3), "memory should be an object"),
        (lambda report: report.update(kind="compare"), "no fidelity report"),
    ],
)
async def test_a_broken_report_is_refused_by_its_place(document, change, words):
    change(document)
    with pytest.raises(InvalidRequestError, match=words):
        read_fidelity(json.dumps(document))


@pytest.mark.parametrize("data", [b"", b"{", b"\xff\xfe", b"[1]", b"null", b'{"kind": NaN}', b"[" * 100_000])
def test_what_is_no_report_is_refused(data):
    with pytest.raises(InvalidRequestError, match="The file is"):
        read_fidelity(data)
