"""Remembers in the cache folder how long checks of a model ended, so that they cost their seconds once.

What is remembered belongs to the very files and versions it was found with: one that changed has another name.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from myserve_ui.core.machine import describe_versions

logger = logging.getLogger(__name__)

FOLDER = "checks"
PACKAGES = ("torch", "transformers", "bitsandbytes", "accelerate", "numba")
CONTENT = ("*.safetensors", "*.json")


class Verdicts:
    """What was found of one model in one form, by border: how far logits past it are from the module's own."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def recall(self) -> dict[int, float]:
        """Empty if nothing, or nothing readable, is there."""
        try:
            found = json.loads(self._path.read_text(encoding="utf-8"))
            return {int(border): float(difference) for border, difference in found.items()}
        except (OSError, ValueError, AttributeError, TypeError):
            return {}

    def remember(self, differences: Mapping[int, float]) -> None:
        """Keep them; a cache that cannot be written costs the next start its checks, and nothing else."""
        unfinished = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            unfinished.write_text(json.dumps({str(border): each for border, each in differences.items()}))
            unfinished.replace(self._path)
        except OSError:
            logger.debug("a check's verdict cannot be kept", exc_info=True)


def open_verdicts(folder: Path, cache: Path, form: Sequence[str]) -> Verdicts:
    """Those of the model in `folder`, as it is loaded in `form`: precision, dtype, kernels, device."""
    files = sorted(path for pattern in CONTENT for path in folder.glob(pattern) if path.is_file())
    stamps = [(path.name, stat.st_size, stat.st_mtime_ns, stat.st_ino) for path in files for stat in [path.stat()]]
    known = {"files": stamps, "versions": describe_versions(PACKAGES), "form": form}
    digest = hashlib.sha256(json.dumps(known, sort_keys=True, default=str).encode()).hexdigest()
    return Verdicts(cache / FOLDER / f"{digest[:32]}.json")
