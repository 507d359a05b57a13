"""A fidelity report as HTML: the table, the histogram, the worst tokens in their context. Pure text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from myserve_ui.core.number_words import MIB
from myserve_ui.ui.compare.evidence import visible
from myserve_ui.ui.shared.plots import log_histogram

WORST = 12
BEFORE, AFTER = 12, 4
"""Tokens of context around a worst token."""
UNKNOWN = "–"


def report_view(document: Mapping[str, Any]) -> str:
    """HTML of a whole report."""
    notes = "".join(f"<li>{escape(note)}</li>" for note in document["notes"])
    tokens = document["tokens"]
    return (
        f'<section class="report" aria-label="Fidelity report"><p class="lead">{escape(headline(document))}</p>'
        f'<div class="columns">{_table(document)}<div>{_histogram(tokens)}{_percentiles(document)}</div></div>'
        f'{_worst(tokens)}<ul class="notes">{notes}</ul>'
        f'<p class="fine">{escape(_circumstances(document))}</p></section>'
    )


def headline(document: Mapping[str, Any]) -> str:
    """What the loss comes to, in a sentence."""
    ratio, kld, top = document["ln_ratio"], document["kld"], document["same_top"]
    growth = math.expm1(min(700.0, ratio["mean"]))
    if abs(ratio["mean"]) <= 2 * ratio["se"]:
        loss = "no loss of perplexity beyond its uncertainty"
    else:
        loss = f"a perplexity {abs(growth):.2%} {'higher' if growth > 0 else 'lower'}"
    return (
        f"{document['candidate']} against {document['base']}: {loss}, the same likeliest token at {top['share']:.1%} "
        f"of {document['tokens_scored']:,} places, mean divergence {kld['mean']:.3g} nats."
    )


def progress_bar(done: int, total: int, words: str) -> str:
    """How far a report is."""
    share = done / total if total else 0.0
    return (
        f'<div class="progress" role="progressbar" aria-valuemin="0" aria-valuemax="{total}" aria-valuenow="{done}" '
        f'aria-label="{escape(words)}"><b><i style="width:{share:.1%}"></i></b><span>{escape(words)}</span></div>'
    )


def _table(document: Mapping[str, Any]) -> str:
    base, candidate = (document["perplexity"][side] for side in ("base", "candidate"))
    delta = document["delta_p"]
    rows = [
        ("Perplexity", _with_se(base["value"], base["se"]), _with_se(candidate["value"], candidate["se"])),
        ("ln of their ratio, paired", "", _with_se(**_mean(document["ln_ratio"]))),
        ("Divergence (KLD), mean", "", _with_se(**_mean(document["kld"]))),
        ("Δp of the true token, mean", "", _with_se(**_mean(delta))),
        ("Δp, root mean square", "", f"{delta['rms']:.4g}"),
        ("Same likeliest token", "", _share(document["same_top"]["share"], document["same_top"]["se"])),
        ("Ten likeliest in common", "", _share(document["top_overlap"]["mean"], document["top_overlap"]["se"])),
        *_memory_rows(document["memory"]),
        ("Scoring speed, tokens/s", *_speeds(document["speed"])),
    ]
    lines = "".join(f"<tr><th>{name}</th><td>{left}</td><td>{right}</td></tr>" for name, left, right in rows)
    head = f"<tr><td></td><th>{escape(document['base'])}</th><th>{escape(document['candidate'])}</th></tr>"
    return f'<table class="numbers"><thead>{head}</thead><tbody>{lines}</tbody></table>'


def _memory_rows(memory: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, str, str]]:
    sides = [memory["base"], memory["candidate"]]
    weights = [_number(side.get("weight_bytes"), 1 / MIB, "{:,.0f} MiB") for side in sides]
    bits = [_number(side.get("bits_per_parameter"), 1.0, "{:.2f}") for side in sides]
    return [("Weights", weights[0], weights[1]), ("Bits per parameter", bits[0], bits[1])]


def _speeds(speed: Mapping[str, Any]) -> tuple[str, str]:
    base = _rate(speed.get("base"))
    return base, _rate(speed.get("candidate")) if "candidate" in speed else base


def _rate(entry: object) -> str:
    return _number(entry.get("scoring_tokens_per_second"), 1.0, "{:,.0f}") if isinstance(entry, dict) else UNKNOWN


def _percentiles(document: Mapping[str, Any]) -> str:
    names = {"median": "50 %", "p90": "90 %", "p95": "95 %", "p99": "99 %", "p999": "99.9 %", "max": "max"}
    head = "".join(f"<th>{name}</th>" for name in names.values())
    lines = "".join(
        f"<tr><th>{label}</th>{''.join(f'<td>{document[key][name]:.2g}</td>' for name in names)}</tr>"
        for label, key in (("KLD", "kld"), ("Δp", "delta_p"))
    )
    return f'<table class="numbers"><thead><tr><td></td>{head}</tr></thead><tbody>{lines}</tbody></table>'


def _histogram(tokens: Sequence[Mapping[str, Any]]) -> str:
    if not tokens:
        return ""
    return log_histogram([row["kld"] for row in tokens], label="Tokens by divergence (KLD, nats)")


def _worst(tokens: Sequence[Mapping[str, Any]]) -> str:
    """The tokens whose prediction changed most, each where it stands in the text."""
    ranked = sorted(range(len(tokens)), key=lambda index: tokens[index]["kld"], reverse=True)[:WORST]
    if not ranked:
        return ""
    lines = "".join(
        f'<tr><td class="context">{_context(tokens, index)}</td><td class="number">{tokens[index]["kld"]:.3f}</td>'
        f'<td class="number">{_p(tokens[index]["nll_base"]):.2g} → '
        f"{_p(tokens[index]['nll_candidate']):.2g}</td></tr>"
        for index in ranked
    )
    head = "<tr><th>where the prediction changed most</th><th>KLD</th><th>p, base → candidate</th></tr>"
    return f'<table class="worst"><thead>{head}</thead><tbody>{lines}</tbody></table>'


def _p(nll: float) -> float:
    """Probability of a loss; a file may hold losses that no model has."""
    return math.exp(min(0.0, -nll))


def _context(tokens: Sequence[Mapping[str, Any]], index: int) -> str:
    before = "".join(visible(row["text"]) for row in tokens[max(0, index - BEFORE) : index])
    after = "".join(visible(row["text"]) for row in tokens[index + 1 : index + 1 + AFTER])
    return f"{escape(before)}<mark>{escape(visible(tokens[index]['text']))}</mark>{escape(after)}"


def _circumstances(document: Mapping[str, Any]) -> str:
    return (
        f"Window {document['window']}, stride {document['stride']}, every token scored once, percentiles by nearest "
        f"rank, ± one standard error. Text SHA-256 {document['text_sha256'][:12]}…, "
        f"measured in {document['speed']['seconds']:.0f} s."
    )


def _mean(entry: Mapping[str, float]) -> dict[str, float]:
    return {"value": entry["mean"], "se": entry["se"]}


def _with_se(value: float, se: float) -> str:
    """Two digits of uncertainty: 12.345 ± 0.067."""
    digits = min(8, max(0, 1 - math.floor(math.log10(se)))) if se > 0 else 4
    return f"{value:.{digits}f} ± {se:.{digits}f}"


def _share(value: float, se: float) -> str:
    return f"{value:.2%} ± {se:.2%}"


def _number(value: object, factor: float, form: str) -> str:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return form.format(value * factor) if is_number else UNKNOWN  # type: ignore[operator]
