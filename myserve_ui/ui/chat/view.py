"""What stands around a chat, as HTML: the model's badges in the header, and how much of the context is used."""

from __future__ import annotations

from markupsafe import Markup

from myserve_ui.core.model_info import LoadProgress, LoadState, ModelInfo
from myserve_ui.core.number_words import mib, precision_words
from myserve_ui.ui.shared.templates import render
from myserve_ui.ui.shared.words import STATE_WORDS, hardware_words, load_line

NEARLY_FULL, HIGH = 0.95, 0.8
"""Shares of the context above which the meter changes its colour."""


def header_badges(model: ModelInfo, progress: LoadProgress | None = None) -> Markup:
    """The header line: name, precision, device, sizes, state, and the reason if something is wrong."""
    is_wrong = model.state in (LoadState.FAILED, LoadState.UNAVAILABLE) and not progress
    return render(
        "chat/badges",
        state=model.state.value,
        state_words=load_line(progress) if progress else STATE_WORDS[model.state],
        badges=_badge_words(model),
        reason=model.reason if is_wrong else None,
    )


def context_meter(used: int, limit: int | None) -> Markup:
    """The used part of the context; nothing while either number is unknown."""
    if not used or not limit:
        return Markup()
    share = min(1.0, used / limit)
    level = "full" if share > NEARLY_FULL else "high" if share > HIGH else "low"
    return render("chat/meter", used=used, limit=limit, share=f"{share:.1%}", level=level)


def _badge_words(model: ModelInfo) -> list[str]:
    words = [model.name, precision_words(model.precision)]
    if hardware := hardware_words(model):
        words.append(hardware)
    if model.context_length:
        words.append(f"{model.context_length:,} context")
    if model.weight_bytes:
        words.append(mib(model.weight_bytes))
    return words
