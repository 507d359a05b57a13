"""What the settings say about models: which are served, how they are loaded, and what their engines may take."""

from __future__ import annotations

from collections.abc import Sequence

from myserve_ui.errors import SettingsError
from myserve_ui.models.catalog import Catalog, CatalogEntry, ModelOptions, find_source, offer
from myserve_ui.models.loading.hub import Hub
from myserve_ui.models.loading.loader import LoadOptions
from myserve_ui.serving.engine_builder import EngineLimits
from myserve_ui.settings import ModelTable, Settings


def catalog_of(settings: Settings) -> Catalog:
    """The models of `settings` in their precisions; the first in the precision that they name is the default.

    Raises SettingsError for two of one name, or a default that is not offered in that precision.
    """
    first = settings.served[0]
    if "precision" in settings.model_fields_set and settings.precision not in first.precisions:
        raise SettingsError(
            f"{first.origin}: precisions are {', '.join(first.precisions)}, but --precision or MYSERVE_PRECISION is "
            f"{settings.precision}."
        )
    entries: dict[str, CatalogEntry] = {}
    origins: dict[str, str] = {}
    for table in settings.served:
        for entry in _entries_of(table, settings):
            if entry.key in entries:
                raise SettingsError(_same_name(entry.key, origins[entry.key], table.origin))
            entries[entry.key], origins[entry.key] = entry, table.origin
    return Catalog(entries.values())


def _entries_of(table: ModelTable, settings: Settings) -> Sequence[CatalogEntry]:
    return list(
        offer(
            find_source(table.model, table.name),
            sorted(table.precisions, key=lambda name: name != settings.precision),
            device=settings.device,
            options=ModelOptions(table.dtype, table.context, table.template),
        )
    )


def _same_name(key: str, first: str, second: str) -> str:
    return (
        f'{first} and {second} are both called {key}: give one of them another with name = "..." in a table [[model]] '
        "of a file for --models."
    )


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
