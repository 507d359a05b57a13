"""Which of the served models a word means: a catalog's key, or a bare precision of the default model, such as "nf4"."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from myserve_ui.core.model_info import LoadState, ModelInfo
from myserve_ui.errors import MyServeError

BASE_PRECISION, CANDIDATE_PRECISION = "full", "nf4"
"""What is compared if nobody says otherwise."""


def find_model(models: Sequence[ModelInfo], asked: str) -> str:
    """The key that `asked` means; `asked` itself if it means nothing here, for the catalog to refuse.

    `models` are the whole catalog, its default first. A key goes before a precision.
    """
    if any(model.id == asked for model in models):
        return asked
    precisions = {model.precision: model.id for model in models if model.name == models[0].name}
    return precisions.get(asked, asked)


def find_pair(models: Sequence[ModelInfo], base: str, candidate: str) -> tuple[str, str]:
    """Keys of both; full precision for an empty base, nf4 for an empty candidate, as far as they exist."""
    return (
        find_model(models, base) if base else _default(models, BASE_PRECISION),
        find_model(models, candidate) if candidate else _default(models, CANDIDATE_PRECISION),
    )


def _default(models: Sequence[ModelInfo], precision: str) -> str:
    """The default model in `precision`, else the last entry that is possible here: of its own, if it has several."""
    possible = [model for model in models if model.state is not LoadState.UNAVAILABLE] or list(models)
    own = [model for model in possible if model.name == models[0].name]
    found = [model.id for model in own if model.precision == precision]
    return found[0] if found else (own if len(own) > 1 else possible)[0 if precision == BASE_PRECISION else -1].id


@contextmanager
def naming_side(side: str) -> Iterator[None]:
    """Let an error about the model of one side name the field that its name came in."""
    try:
        yield
    except MyServeError as error:
        if error.param == "model":
            error.param = side
        raise
