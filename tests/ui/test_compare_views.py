"""What the Compare page shows, as text: sentences, chips, charts, tables. Everything a model wrote is escaped."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from myserve_ui.core.memory_report import MemoryReport, WeightGroup
from myserve_ui.core.outputs import FinishReason, RequestOutput, RequestState, RequestTimings, Usage
from myserve_ui.evaluation.comparison_document import Comparison, Evidence
from myserve_ui.evaluation.documents import FidelityReport
from myserve_ui.evaluation.plain_words import caveats, speed_words
from myserve_ui.serving.compare_service import Side, SideAnswer
from myserve_ui.ui.compare.evidence import evidence_view, verdict_sentences
from myserve_ui.ui.compare.fidelity import FidelityPanel
from myserve_ui.ui.compare.memory_view import MemorySide, memory_view
from myserve_ui.ui.compare.panes import pane, stopped
from myserve_ui.ui.compare.report import headline, report_view
from myserve_ui.ui.shared.events import progress_bar
from myserve_ui.ui.shared.plots import log_curve, log_histogram
from tests.evaluation.saved import saved
from tests.ui.scripted_service import FULL, NF4

TIMINGS = RequestTimings(0.0, scheduled=0.0, first_token=0.05, last_token=1.05, num_output_tokens=11)
OUTPUT = RequestOutput("req-1", RequestState.DECODE, Usage(5, 11), TIMINGS)


def token(text: str = "a", **numbers: object) -> dict[str, object]:
    row = {"p_base": 0.5, "p_candidate": 0.25, "rank_base": 0, "rank_candidate": 1, "kld": 0.1, "delta_p": -0.25}
    return {"id": 1, "text": text, "same_top": False, **row, **numbers}


def evidence(**fields: object) -> Evidence:
    top = [{"id": 1, "text": "<b>", "p": 0.5}]
    split = {
        "index": 1,
        "base_token": " a",
        "candidate_token": "\n",
        "margin": 0.7,
        "verdict": "quantisation changed the choice",
        "top": {"base": top, "candidate": top},
    }
    answers = {"base": [token("<i>"), token("\n")], "candidate": [token("<i>"), token("")]}
    whole = {"base": "tiny", "candidate": "tiny:nf4", "noise_floor": 1e-5, "identical_share": {"32": 0.5}}
    return Evidence.model_validate({**whole, "split": split, "answers": answers, **fields})


def comparison(**fields: object) -> Comparison:
    return Comparison.check({**saved("comparison"), **fields})


def report(**fields: object) -> FidelityReport:
    spread = dict.fromkeys(("median", "p90", "p95", "p99", "p999", "max"), 0.5)
    mean = {"mean": 0.1, "se": 0.01}
    rows = [
        {"text": f"<{n}>", "nll_base": 1.0, "nll_candidate": 2.0, "kld": n / 10, "delta_p": 0, "same_top": True}
        for n in range(20)
    ]
    numbers = {
        "text_sha256": "0" * 64,
        "tokens_scored": 20,
        "perplexity": {"base": {"value": 12.345, "se": 0.067}, "candidate": {"value": 13.0, "se": 0.07}},
        "ln_ratio": mean,
        "kld": mean | spread,
        "delta_p": mean | spread | {"rms": 0.2},
        "same_top": {"share": 0.9, "se": 0.01},
        "top_overlap": mean,
        "memory": {"base": {"weight_bytes": 2**30, "bits_per_parameter": 32.0}, "candidate": {}},
        "speed": {"seconds": 3.0, "base": {"scoring_tokens_per_second": 300.0}},
        "notes": ["a note"],
        "tokens": [{"id": 1, "base_rank": 0, **row} for row in rows],
    }
    return FidelityReport.check({**saved("fidelity"), **numbers, **fields})


def test_a_pane_shows_speed_first_token_and_weights_and_escapes_the_answer() -> None:
    html = pane(Side.BASE, replace(FULL, num_parameters=134_500_000), SideAnswer("tiny", "<b>hi</b>", latest=OUTPUT))
    assert "10.0 tok/s" in html and "50 ms" in html and "513 MiB" in html and "32.0 bits" in html
    assert "&lt;b&gt;hi&lt;/b&gt;" in html and "<b>hi" not in html


def test_a_pane_that_was_left_says_stopped_and_keeps_its_words() -> None:
    running = pane(Side.BASE, FULL, SideAnswer("tiny", 'data-state="running"', latest=OUTPUT))
    assert running.count('data-state="running"') == 1
    assert 'data-state="stopped"' in stopped(running) and "hi" not in stopped(running)


def test_a_side_that_failed_says_why() -> None:
    failed = replace(OUTPUT, finish_reason=FinishReason.ERROR)
    html = pane(Side.CANDIDATE, NF4, SideAnswer("tiny:nf4", latest=failed, error="no <room>"))
    assert 'data-state="failed"' in html and "no &lt;room&gt;" in html


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "Quantisation changed the choice"),
        ({"split": None}, "The same answer"),
        ({"split": None, "answers": {"base": [token()], "candidate": []}}, "The same as far as both go"),
    ],
)
def test_the_verdict_is_a_sentence(fields: dict[str, object], words: str) -> None:
    assert verdict_sentences(evidence(**fields))[0] == words


def test_the_explanation_names_both_tokens_the_margin_and_the_noise() -> None:
    explanation = verdict_sentences(evidence())[1]
    assert "token 2" in explanation and "“ a”" in explanation and "“↵”" in explanation
    assert "0.7 nats" in explanation and "1e-05" in explanation


def test_a_noise_that_was_not_measured_is_told_as_such() -> None:
    explanation = verdict_sentences(evidence(noise_floor=None))[1]
    assert "could not be measured" in explanation and "up to" not in explanation


def test_chips_are_escaped_have_their_numbers_and_mark_the_split_once_on_each_side() -> None:
    html = evidence_view(comparison(evidence=evidence(), measured=["fast <i>"]))
    assert html.count("chip split") == 2
    assert html.count('tabindex="0"') == 2
    assert "<i>" not in re.sub(r"<i style[^>]*>", "", html)
    assert "Δp -0.250" in html and "rank 1 and 2" in html and "∎" in html


def test_a_comparison_without_evidence_says_why() -> None:
    html = evidence_view(comparison(evidence=None, no_evidence_because="one <side>", measured=[]))
    assert "one &lt;side&gt;" in html and "chip" not in html


def test_a_report_has_numbers_with_their_errors_the_histogram_and_the_worst_tokens() -> None:
    html = report_view(report())
    assert "12.345 ± 0.067" in html and "1,024 MiB" in html and "90.00% ± 1.00%" in html
    assert '<figure class="chart">' in html and "<mark>&lt;19&gt;</mark>" in html and "<mark>&lt;0&gt;" not in html
    assert "a note" in html


def test_a_report_without_tokens_or_memory_is_shown_all_the_same() -> None:
    html = report_view(report(tokens=[], memory={"base": {}, "candidate": {}}))
    assert "12.345" in html and "<mark>" not in html


def test_the_headline_claims_a_loss_only_beyond_its_uncertainty() -> None:
    assert "10.52% higher" in headline(report())
    assert "no loss of perplexity beyond its uncertainty" in headline(report(ln_ratio={"mean": 0.01, "se": 0.01}))


def test_the_histogram_counts_every_token_once() -> None:
    html = log_histogram([0.0, 1e-30, 1e-3, 0.5, 0.5, 1e9], label="x")
    counts = [int(number) for number in re.findall(r": (\d+) tokens", html)]
    assert sum(counts) == 6 and counts[0] == 2 and counts[-1] == 1


def test_the_curve_has_a_point_for_each_token_and_a_mark_at_the_split() -> None:
    html = log_curve([0.1, 1e-12, 2.0], label="x", mark=1)
    (points,) = re.findall(r'polyline points="([^"]*)"', html)
    heights = [float(point.split(",")[1]) for point in points.split()]
    assert len(heights) == 3 and heights[2] < heights[0] < heights[1] == 100
    assert 'x1="500.0"' in html
    assert log_curve([], label="x") == ""


def test_progress_is_readable_by_machines_too() -> None:
    assert 'aria-valuenow="5"' in progress_bar(5, 10, "5 of 10") and "width:50.0%" in progress_bar(5, 10, "x")
    assert "width:0.0%" in progress_bar(0, 0, "loading")


def test_memory_says_what_is_quantised_and_what_is_not() -> None:
    groups = (
        WeightGroup("model.*.q_proj.weight", "nf4", 30, 1_000_000, 2**20, 2**16),
        WeightGroup("embed.weight", "float32", 1, 500_000, 2 * 2**20, 0),
    )
    weights = MemoryReport(groups, tied=(("embed.weight", "lm_head.weight"),))
    html = memory_view([MemorySide(FULL, None, None), MemorySide(NF4, weights, None, peak_bytes=7 * 2**20)])
    assert 'class="quantised"><th>model.*.q_proj' in html and 'class="kept"><th>embed' in html
    assert "Tied, counted once: embed.weight, lm_head.weight" in html and "8.39" in html
    assert "<td>–</td><td>7 MiB</td>" in html


def test_speed_is_told_as_it_was_measured() -> None:
    assert "2.00 × slower" in str(speed_words(20.0, 10.0, alone=True))
    assert "1.50 × as fast" in str(speed_words(20.0, 30.0, alone=True))
    assert "as fast as the base" in str(speed_words(20.0, 20.2, alone=True))
    assert "shared the machine" in str(speed_words(20.0, 10.0, alone=False))
    assert speed_words(20.0, None, alone=True) is None


def test_caveats_say_what_both_notes_share_once() -> None:
    base, candidate = replace(FULL, note="From a 4-bit file."), replace(NF4, note="From a 4-bit file. Rounded.")
    words = caveats(base, candidate)
    assert words.count("From a 4-bit file.") == 1 and "Rounded." in words
    assert any("slower than full precision" in sentence for sentence in words)
    assert caveats(base, base) == ["From a 4-bit file."]


def test_a_byte_order_mark_of_an_uploaded_text_is_no_text() -> None:
    panel = FidelityPanel.__new__(FidelityPanel)
    panel._text, panel._progress = "text", "progress"
    assert panel.on_text(b"\xef\xbb\xbfone\xe2\x80\xa8two") == {"text": "one\u2028two", "progress": ""}
