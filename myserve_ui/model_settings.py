"""What the settings say about a model: what it is, how it is loaded, and what its engine may take."""

from __future__ import annotations

from myserve_ui.models.catalog import Catalog, build_catalog
from myserve_ui.models.loading.hub import Hub
from myserve_ui.models.loading.loader import LoadOptions
from myserve_ui.serving.engine_builder import EngineLimits
from myserve_ui.settings import Settings


def catalog_of(settings: Settings) -> Catalog:
    """The model of `settings` in its precisions; the one they name is the default."""
    return build_catalog(model=settings.model, precision=settings.precision, device=settings.device)


def load_options(settings: Settings) -> LoadOptions:
    """What `settings` say about loading."""
    return LoadOptions(
        cache=settings.cache,
        dtype=settings.dtype,
        device=settings.device,
        hub=Hub(token=settings.hf_token.get_secret_value() if settings.hf_token else None),
        trust_remote_code=settings.trust_remote_code,
        chat_template=settings.chat_template,
        max_model_len=settings.max_model_len,
        kernels=settings.kernels,
    )


def engine_limits(settings: Settings) -> EngineLimits:
    """What `settings` allow an engine."""
    return EngineLimits(
        max_num_seqs=settings.max_num_seqs,
        max_waiting=settings.max_waiting,
        max_num_batched_tokens=settings.max_num_batched_tokens,
        max_model_len=settings.max_model_len,
        kv_cache_gib=settings.kv_cache_gib,
        debug=settings.debug,
    )
