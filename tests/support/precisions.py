"""A tiny model beside a roughened copy of itself, which stands in for a cheaper precision; and a foreign one."""

from __future__ import annotations

import time
from dataclasses import replace

from myserve_ui.evaluation.comparisons import Comparisons
from myserve_ui.models.catalog import Catalog, CatalogEntry, ModelSource, SourceKind
from myserve_ui.models.loaded_model import LoadedModel
from myserve_ui.models.tiny import build_tiny_loaded_model
from myserve_ui.serving.chat_service import ChatService
from myserve_ui.serving.engine_builder import EngineLimits
from myserve_ui.serving.engine_pool import EnginePool

SOURCE = ModelSource(SourceKind.FOLDER, "tiny", "")
NOT_HERE = "not possible here, because this is a test"
TEXT = "The quick brown fox jumps over the lazy dog, again and again. " * 3
STEPS = 24
"""Weights are rounded to so many steps from 0 to 1: text changes, but not at once."""


def catalog() -> Catalog:
    """ "tiny" in full precision, as "nf4" and, impossible, as "int8"; "other" reads text as other tokens."""
    entries = [
        CatalogEntry("tiny", SOURCE, "full", created=1),
        CatalogEntry("tiny:nf4", SOURCE, "nf4", created=1),
        CatalogEntry("tiny:int8", SOURCE, "int8", created=1, unavailable_reason=NOT_HERE),
        CatalogEntry("other", ModelSource(SourceKind.FOLDER, "other", ""), "full", created=1),
    ]
    return Catalog(entries)


def load(entry: CatalogEntry, _on_progress: object) -> LoadedModel:
    loaded = build_tiny_loaded_model("llama")
    if entry.precision == "nf4":
        for parameter in loaded.module.parameters():
            parameter.data = (parameter.data * STEPS).round() / STEPS
    if entry.key == "other":
        loaded.tokenizer.encode = lambda text, **_: [1, 2, 3]  # type: ignore[method-assign]
        loaded.tokenizer.render_chat = lambda messages, **_: [1, 2, 3]  # type: ignore[method-assign]
    size = 1000 if entry.precision == "full" else 250
    info = replace(
        loaded.info, precision=entry.precision, device="cpu", weight_bytes=size, num_parameters=250, dtype="fp32"
    )
    return replace(loaded, info=info)


def make_comparisons(*, pause: float = 0.0) -> Comparisons:
    """Services over the catalog above, nothing loaded yet; `pause` seconds make each step as slow as a big model's."""

    def load_slow(entry: CatalogEntry, on_progress: object) -> LoadedModel:
        loaded = load(entry, on_progress)
        loaded.module.register_forward_pre_hook(lambda *_: time.sleep(pause))
        return loaded

    pool = EnginePool(catalog(), load_slow, EngineLimits(debug=True))
    return Comparisons(ChatService(pool, grace=0.0), pool)
