"""Tells a file's content from any other by its whole SHA-256, which is taken once and remembered while the file stays.

What is remembered belongs to the file as the system knows it: device, inode, size, and the times of its last change,
of which one cannot be set. So a file that is written anew under its name and size is read anew.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from contextlib import suppress
from pathlib import Path

from myserve_ui.models.gguf.manifest import digest_of

FOLDER = "digests"
SETTLED_SECONDS = 2.0
"""A file changed this lately may change again within the same tick of the system's clock: nothing is remembered yet."""


def content_digest(path: Path, *, cache: Path) -> str:
    """The SHA-256 of `path` in hexadecimal digits, from the memory in `cache` if the file is the same."""
    entry = cache / FOLDER / f"{hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:16]}.json"
    identity = _identity(path)
    if (remembered := _recall(entry, identity)) is not None:
        return remembered
    digest = digest_of(path)
    if _identity(path) == identity and time.time() - path.stat().st_ctime > SETTLED_SECONDS:
        _remember(entry, identity, digest)
    return digest


def _identity(path: Path) -> list[int]:
    stat = path.stat()
    return [stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns]


def _recall(entry: Path, identity: list[int]) -> str | None:
    try:
        known = json.loads(entry.read_text(encoding="utf-8"))
        digest = known["sha256"]
        return digest if known["identity"] == identity and isinstance(digest, str) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _remember(entry: Path, identity: list[int], digest: str) -> None:
    """A cache that cannot be written is for the conversion to explain; then the next start reads the file again."""
    unfinished = entry.with_suffix(f".{os.getpid()}")
    with suppress(OSError):
        entry.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_text(json.dumps({"identity": identity, "sha256": digest}), encoding="utf-8")
        unfinished.replace(entry)
