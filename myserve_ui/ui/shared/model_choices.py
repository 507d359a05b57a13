"""What a person chooses a model from."""

from __future__ import annotations

from collections.abc import Sequence

from myserve_ui.core.model_info import LoadState, ModelInfo
from myserve_ui.core.number_words import precision_words
from myserve_ui.ui.shared.formatting import STATE_WORDS


def model_choices(models: Sequence[ModelInfo]) -> list[tuple[str, str]]:
    """(label, id) of the whole catalog; labels stay true while models come and go."""
    has_several = len({model.name for model in models}) > 1
    return [(_label(model, with_name=has_several), model.id) for model in models]


def _label(model: ModelInfo, *, with_name: bool) -> str:
    label = precision_words(model.precision)
    label = f"{label} · {model.name}" if with_name else label
    return f"{label} ({STATE_WORDS[model.state]})" if model.state is LoadState.UNAVAILABLE else label
