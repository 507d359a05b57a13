"""Evidence on two answers as HTML: token chips with their heat, the split, a verdict. Pure text, from the document."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from myserve_ui.evaluation.comparison_document import AnswerToken, Comparison, Evidence, Split
from myserve_ui.serving.compare_service import Side
from myserve_ui.ui.compare.panes import SIDE_WORDS
from myserve_ui.ui.shared.plots import log_curve
from myserve_ui.ui.shared.templates import render

COLDEST, HOTTEST = -3.0, 0.5
"""Powers of ten of divergence between which a chip's colour goes from nothing to full, slowly at first."""
NO_TEXT = "∎"
"""Shown for a token that adds no text, such as the end of the answer."""
LINE_BREAK = "↵"
CHIP_BREAK = Markup("↵<br>")


@dataclass(frozen=True, slots=True)
class Chip:
    """A token as it is drawn; numbers are those of its colours, 0.00 to 1.00."""

    text: Markup
    heat: str
    drop: str
    rise: str
    details: str
    is_split: bool


@dataclass(frozen=True, slots=True)
class AnswerView:
    side: Side
    label: str
    chips: list[Chip]
    curve: Markup


def evidence_view(document: Comparison) -> Markup:
    """HTML of a comparison's evidence; the reason if there is none."""
    evidence, notes = document.evidence, document.measured
    if evidence is None:
        return render("compare/no_evidence", reason=document.no_evidence_because or "", notes=notes)
    split = evidence.split
    headline, explanation = verdict_sentences(evidence)
    return render(
        "compare/evidence",
        headline=headline,
        explanation=explanation + _share_words(evidence),
        tops=[(SIDE_WORDS[side], split.top.of(side)) for side in Side] if split else [],
        visible=visible,
        answers=[_answer(side, evidence.answers.of(side), split) for side in Side],
        notes=notes,
    )


def verdict_sentences(evidence: Evidence) -> tuple[str, str]:
    """(headline, explanation) of what decided where the answers part."""
    split = evidence.split
    lengths = len(evidence.answers.base), len(evidence.answers.candidate)
    if split is None and lengths[0] == lengths[1]:
        return "The same answer", f"Both chose the same {lengths[0]} tokens."
    if split is None:
        return "The same as far as both go", f"They agree for {min(lengths)} tokens, where the shorter one ends."
    return (
        split.verdict[0].upper() + split.verdict[1:],
        f"At token {split.index + 1} the base chose {_quoted(split.base_token)} and the candidate "
        f"{_quoted(split.candidate_token)}. The base prefers its own choice by {split.margin:.3g} nats; "
        f"{_rounding_words(evidence.noise_floor)}.",
    )


def _rounding_words(noise: float | None) -> str:
    if noise is None:
        return "how far rounding alone moves a log-probability could not be measured: no batch had another shape"
    how_far = f"{noise:.1g} nats"
    return f"rounding alone, the base against itself in another batch, moves a log-probability by up to {how_far}"


def _share_words(evidence: Evidence) -> str:
    shares = ", ".join(f"{share:.0%} of the first {n}" for n, share in evidence.identical_share.items())
    return f" Identical tokens: {shares}." if shares else ""


def _answer(side: Side, tokens: Sequence[AnswerToken], split: Split | None) -> AnswerView:
    mark = split.index if split and split.index < len(tokens) else None
    chips = [_chip(index, token, is_split=index == mark) for index, token in enumerate(tokens)]
    curve = log_curve([token.kld for token in tokens], label="KLD along the answer", mark=mark)
    return AnswerView(side, f"{SIDE_WORDS[side]}'s answer, token by token", chips, curve)


def _chip(index: int, token: AnswerToken, *, is_split: bool) -> Chip:
    return Chip(
        text=CHIP_BREAK.join(visible(token.text).split(LINE_BREAK)),
        heat=f"{_heat(token.kld):.2f}",
        drop=f"{max(0.0, -token.delta_p) ** 0.5:.2f}",
        rise=f"{max(0.0, token.delta_p) ** 0.5:.2f}",
        details=_details(index, token),
        is_split=is_split,
    )


def _details(index: int, token: AnswerToken) -> str:
    top = "same likeliest token" if token.same_top else "another likeliest token"
    return (
        f"Token {index + 1} {_quoted(token.text)}: p {token.p_base:.3f} base, {token.p_candidate:.3f} candidate, "
        f"Δp {token.delta_p:+.3f}, KLD {token.kld:.2g}, rank {token.rank_base + 1} and {token.rank_candidate + 1}, "
        f"{top}"
    )


def _heat(kld: float) -> float:
    """0..1 for a chip's colour."""
    if kld <= 0:
        return 0.0
    return min(1.0, max(0.0, (math.log10(kld) - COLDEST) / (HOTTEST - COLDEST))) ** 2


def visible(text: str) -> str:
    """A token's text with its line breaks to be seen."""
    return text.replace("\r", "").replace("\n", LINE_BREAK).replace("\t", "⇥") or NO_TEXT


def _quoted(text: str) -> str:
    return f"“{visible(text)}”"
