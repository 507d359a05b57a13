"""Evidence on two answers as HTML: token chips with their heat, the split, a verdict. Pure text, from the document."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from myserve_ui.serving.compare_service import Side
from myserve_ui.ui.compare.panes import SIDE_WORDS
from myserve_ui.ui.shared.plots import log_curve

COLDEST, HOTTEST = -3.0, 0.5
"""Powers of ten of divergence between which a chip's colour goes from nothing to full, slowly at first."""
NO_TEXT = "∎"
"""Shown for a token that adds no text, such as the end of the answer."""


def evidence_view(document: Mapping[str, Any]) -> str:
    """HTML of a comparison's evidence; the reason if there is none."""
    evidence = document.get("evidence")
    notes = "".join(f"<li>{escape(note)}</li>" for note in document["measured"])
    notes = f'<ul class="notes">{notes}</ul>'
    if not evidence:
        return f'<p class="reason">{escape(str(document.get("no_evidence_because") or ""))}</p>{notes}'
    split = evidence["split"]
    index = split["index"] if split else None
    answers = "".join(_answer(side, evidence["answers"][side.value], index) for side in Side)
    return (
        f'<section class="evidence" aria-label="Token evidence">{_verdict(evidence)}{_tops(split)}{_switch()}'
        f'<div class="answers">{answers}</div>{notes}</section>'
    )


def verdict_sentences(evidence: Mapping[str, Any]) -> tuple[str, str]:
    """(headline, explanation) of what decided where the answers part."""
    split, noise = evidence["split"], evidence["noise_floor"]
    lengths = [len(evidence["answers"][side.value]) for side in Side]
    if split is None and lengths[0] == lengths[1]:
        return "The same answer", f"Both chose the same {lengths[0]} tokens."
    if split is None:
        return "The same as far as both go", f"They agree for {min(lengths)} tokens, where the shorter one ends."
    verdict = str(split["verdict"])
    return (
        verdict[0].upper() + verdict[1:],
        f"At token {split['index'] + 1} the base chose {_quoted(split['base_token'])} and the candidate "
        f"{_quoted(split['candidate_token'])}. The base prefers its own choice by {split['margin']:.3g} nats; "
        f"{_rounding_words(noise)}.",
    )


def _rounding_words(noise: float | None) -> str:
    if noise is None:
        return "how far rounding alone moves a log-probability could not be measured: no batch had another shape"
    how_far = f"{noise:.1g} nats"
    return f"rounding alone, the base against itself in another batch, moves a log-probability by up to {how_far}"


def _verdict(evidence: Mapping[str, Any]) -> str:
    headline, explanation = verdict_sentences(evidence)
    shares = ", ".join(f"{share:.0%} of the first {n}" for n, share in evidence["identical_share"].items())
    shares = f" Identical tokens: {shares}." if shares else ""
    return f'<div class="verdict"><h3>{escape(headline)}</h3><p>{escape(explanation + shares)}</p></div>'


def _tops(split: Mapping[str, Any] | None) -> str:
    """Both models' five likeliest tokens where the answers part."""
    if split is None:
        return ""
    tables = "".join(_top_table(side, split["top"][side.value]) for side in Side)
    return f'<div class="tops">{tables}</div>'


def _top_table(side: Side, rows: Sequence[Mapping[str, Any]]) -> str:
    lines = "".join(
        f'<tr><td><code>{escape(visible(row["text"]))}</code></td><td class="share">'
        f'<i style="width:{row["p"]:.1%}"></i></td><td class="number">{row["p"]:.3f}</td></tr>'
        for row in rows
    )
    caption = f"{SIDE_WORDS[side]}: likeliest tokens at the split"
    return f'<table class="top"><caption>{caption}</caption><tbody>{lines}</tbody></table>'


def _switch() -> str:
    """Which number colours the chips; the style sheet does the rest."""
    return (
        '<fieldset class="heat"><legend>Colour by</legend>'
        '<label><input type="radio" name="heat" value="kld" checked> divergence (KLD)</label>'
        '<label><input type="radio" name="heat" value="dp"> Δp, candidate − base</label>'
        '<output class="chip-details" aria-live="polite">Point at a token, or step through them with the arrow keys.'
        "</output></fieldset>"
    )


def _answer(side: Side, rows: Sequence[Mapping[str, Any]], split: int | None) -> str:
    chips = "".join(_chip(side, index, row, is_split=index == split) for index, row in enumerate(rows))
    label = f"{SIDE_WORDS[side]}'s answer, token by token"
    mark = split if split is not None and split < len(rows) else None
    curve = log_curve([row["kld"] for row in rows], label="KLD along the answer", mark=mark)
    group = f'<div class="chips" role="group" aria-label="{label}">{chips}</div>'
    return f'<div class="side"><h4>{label}</h4>{group}{curve}</div>'


def _chip(side: Side, index: int, row: Mapping[str, Any], *, is_split: bool) -> str:
    shown = escape(visible(row["text"])).replace("↵", "↵<br>")
    classes = "chip split" if is_split else "chip"
    return (
        f'<span class="{classes}" role="button" tabindex="{0 if index == 0 else -1}" data-side="{side.value}" '
        f'data-index="{index}" style="--kld:{_heat(row["kld"]):.2f};--drop:{max(0.0, -row["delta_p"]) ** 0.5:.2f};'
        f'--rise:{max(0.0, row["delta_p"]) ** 0.5:.2f}" title="{escape(_details(index, row))}">{shown}</span>'
    )


def _details(index: int, row: Mapping[str, Any]) -> str:
    top = "same likeliest token" if row["same_top"] else "another likeliest token"
    return (
        f"Token {index + 1} {_quoted(row['text'])}: p {row['p_base']:.3f} base, {row['p_candidate']:.3f} candidate, "
        f"Δp {row['delta_p']:+.3f}, KLD {row['kld']:.2g}, rank {row['rank_base'] + 1} and {row['rank_candidate'] + 1}, "
        f"{top}"
    )


def _heat(kld: float) -> float:
    """0..1 for a chip's colour."""
    if kld <= 0:
        return 0.0
    return min(1.0, max(0.0, (math.log10(kld) - COLDEST) / (HOTTEST - COLDEST))) ** 2


def visible(text: str) -> str:
    """A token's text with its line breaks to be seen."""
    return text.replace("\r", "").replace("\n", "↵").replace("\t", "⇥") or NO_TEXT


def _quoted(text: str) -> str:
    return f"“{visible(text)}”"
