"""A document that was saved comes back; anything else is refused in a sentence that names the place."""

from __future__ import annotations

import json

import pytest

from myserve_ui.errors import InvalidRequestError
from myserve_ui.evaluation.comparison_document import Comparison
from myserve_ui.evaluation.documents import FidelityReport, PerplexityReport
from myserve_ui.evaluation.fidelity import FidelityRequest
from tests.evaluation.saved import NAMES, saved, saved_text
from tests.support.precisions import TEXT

KINDS = {"fidelity": FidelityReport, "perplexity": PerplexityReport, "compare": Comparison}


@pytest.mark.parametrize("name", NAMES)
def test_what_was_saved_before_documents_had_a_version_opens_and_keeps_every_key(name):
    before = saved(name)
    document = KINDS[before["kind"]].read(saved_text(name))
    assert document.as_json() == {**before, "version": 1}


async def test_a_saved_report_comes_back_as_it_was(comparisons):
    request = FidelityRequest(TEXT, window=64, stride=32)
    report = [step async for step in comparisons.report(request)][-1].document
    assert FidelityReport.read(json.dumps(report.as_json(), allow_nan=False)) == report


def test_a_report_of_a_later_version_is_refused():
    with pytest.raises(InvalidRequestError, match="of version 2"):
        FidelityReport.check({**saved("fidelity"), "version": 2})


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
        (
            lambda report: report["memory"]["base"].update(weight_bytes="x"),
            "memory.base.weight_bytes should be a number",
        ),
        (lambda report: report.update(kind="compare"), "no fidelity report"),
    ],
)
def test_a_broken_report_is_refused_by_its_place(change, words):
    report = saved("fidelity")
    change(report)
    with pytest.raises(InvalidRequestError, match=words):
        FidelityReport.read(json.dumps(report))


@pytest.mark.parametrize("data", [b"", b"{", b"\xff\xfe", b"[1]", b"null", b'{"kind": NaN}', b"[" * 100_000])
def test_what_is_no_report_is_refused(data):
    with pytest.raises(InvalidRequestError, match="The file is"):
        FidelityReport.read(data)
