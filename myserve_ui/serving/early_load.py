"""Begins to load one model before the event loop runs: what the API imports takes a while, on another core."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor

from myserve_ui.core.model_info import OnProgress
from myserve_ui.models.catalog import CatalogEntry
from myserve_ui.models.loaded_model import LoadedModel
from myserve_ui.serving.engine_pool import Load


class EarlyLoad:
    """`load`, and one entry that may have been begun: whoever asks for it first gets what was begun.

    Later loads, and another try after an error, begin anew.
    """

    def __init__(self, load: Load) -> None:
        self._load = load
        self._begun: tuple[CatalogEntry, Future[LoadedModel]] | None = None
        self._stage: tuple[str, float | None] | None = None
        self._on_progress: OnProgress | None = None

    def begin(self, entry: CatalogEntry) -> None:
        """Start to load `entry` on a thread of its own."""
        executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="early-load")
        self._begun = entry, executor.submit(self._load, entry, self._report)
        executor.shutdown(wait=False)

    def __call__(self, entry: CatalogEntry, on_progress: OnProgress) -> LoadedModel:
        """The loaded model; blocks. Raises what `load` raises."""
        begun, self._begun = self._begun, None
        if begun is None or begun[0] is not entry:
            return self._load(entry, on_progress)
        self._on_progress = on_progress
        if self._stage is not None:
            on_progress(*self._stage)
        return begun[1].result()

    def _report(self, stage: str, fraction: float | None = None) -> None:
        self._stage = stage, fraction
        if self._on_progress is not None:
            self._on_progress(stage, fraction)
