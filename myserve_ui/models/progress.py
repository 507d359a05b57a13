"""How a load tells what it is doing."""

from __future__ import annotations

from collections.abc import Callable

OnProgress = Callable[[str, float | None], None]
"""Called with a stage in words and how far it is, 0..1 or None; from the loading thread, so it must be quick."""


def ignore_progress(stage: str, fraction: float | None) -> None:
    """For callers that do not look."""
