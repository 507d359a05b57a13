"""A fidelity report as HTML: the table, the histogram, the worst tokens in their context. Pure text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from myserve_ui.core.number_words import UNKNOWN, mib
from myserve_ui.evaluation.documents import FidelityReport, Rate, ScoredToken, ScoringSpeed
from myserve_ui.ui.compare.evidence import visible
from myserve_ui.ui.shared.plots import log_histogram
from myserve_ui.ui.shared.templates import render

WORST = 12
BEFORE, AFTER = 12, 4
"""Tokens of context around a worst token."""
Row = tuple[str, str, str]
"""A name, and the words of base and candidate."""


@dataclass(frozen=True, slots=True)
class WorstToken:
    """A token whose prediction changed much, where it stands in the text."""

    before: str
    token: str
    after: str
    kld: float
    p_base: float
    p_candidate: float


def report_view(report: FidelityReport) -> Markup:
    """HTML of a whole report."""
    kld = [token.kld for token in report.tokens]
    return render(
        "compare/report",
        report=report,
        headline=headline(report),
        rows=_rows(report),
        histogram=log_histogram(kld, label="Tokens by divergence (KLD, nats)") if kld else "",
        worst=_worst(report.tokens),
        fine_print=_circumstances(report),
    )


def headline(report: FidelityReport) -> str:
    """What the loss comes to, in a sentence."""
    ratio = report.ln_ratio
    growth = math.expm1(min(700.0, ratio.mean))
    if abs(ratio.mean) <= 2 * ratio.se:
        loss = "no loss of perplexity beyond its uncertainty"
    else:
        loss = f"a perplexity {abs(growth):.2%} {'higher' if growth > 0 else 'lower'}"
    return (
        f"{report.candidate} against {report.base}: {loss}, the same likeliest token at {report.same_top.share:.1%} "
        f"of {report.tokens_scored:,} places, mean divergence {report.kld.mean:.3g} nats."
    )


def _rows(report: FidelityReport) -> list[Row]:
    base, candidate = report.perplexity.base, report.perplexity.candidate
    sides = report.memory.base, report.memory.candidate
    bits = [UNKNOWN if side.bits_per_parameter is None else f"{side.bits_per_parameter:.2f}" for side in sides]
    return [
        ("Perplexity", _with_se(base.value, base.se), _with_se(candidate.value, candidate.se)),
        ("ln of their ratio, paired", "", _with_se(report.ln_ratio.mean, report.ln_ratio.se)),
        ("Divergence (KLD), mean", "", _with_se(report.kld.mean, report.kld.se)),
        ("Δp of the true token, mean", "", _with_se(report.delta_p.mean, report.delta_p.se)),
        ("Δp, root mean square", "", f"{report.delta_p.rms:.4g}"),
        ("Same likeliest token", "", _share(report.same_top.share, report.same_top.se)),
        ("Ten likeliest in common", "", _share(report.top_overlap.mean, report.top_overlap.se)),
        ("Weights", mib(sides[0].weight_bytes), mib(sides[1].weight_bytes)),
        ("Bits per parameter", bits[0], bits[1]),
        ("Scoring speed, tokens/s", *_speeds(report.speed)),
    ]


def _speeds(speed: ScoringSpeed) -> tuple[str, str]:
    """A model that was compared with itself ran once."""
    base = _rate(speed.base)
    return base, _rate(speed.candidate) if speed.candidate else base


def _rate(rate: Rate | None) -> str:
    return f"{rate.scoring_tokens_per_second:,.0f}" if rate else UNKNOWN


def _worst(tokens: Sequence[ScoredToken]) -> list[WorstToken]:
    """The tokens whose prediction changed most."""
    ranked = sorted(range(len(tokens)), key=lambda index: tokens[index].kld, reverse=True)[:WORST]
    return [_in_context(tokens, index) for index in ranked]


def _in_context(tokens: Sequence[ScoredToken], index: int) -> WorstToken:
    token = tokens[index]
    return WorstToken(
        before=_text_of(tokens[max(0, index - BEFORE) : index]),
        token=visible(token.text),
        after=_text_of(tokens[index + 1 : index + 1 + AFTER]),
        kld=token.kld,
        p_base=_p(token.nll_base),
        p_candidate=_p(token.nll_candidate),
    )


def _text_of(tokens: Sequence[ScoredToken]) -> str:
    return "".join(visible(token.text) for token in tokens)


def _p(nll: float) -> float:
    """Probability of a loss; a file may hold losses that no model has."""
    return math.exp(min(0.0, -nll))


def _circumstances(report: FidelityReport) -> str:
    return (
        f"Window {report.window}, stride {report.stride}, every token scored once, percentiles by nearest "
        f"rank, ± one standard error. Text SHA-256 {report.text_sha256[:12]}…, "
        f"measured in {report.speed.seconds:.0f} s."
    )


def _with_se(value: float, se: float) -> str:
    """Two digits of uncertainty: 12.345 ± 0.067."""
    digits = min(8, max(0, 1 - math.floor(math.log10(se)))) if se > 0 else 4
    return f"{value:.{digits}f} ± {se:.{digits}f}"


def _share(value: float, se: float) -> str:
    return f"{value:.2%} ± {se:.2%}"
