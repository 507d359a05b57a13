"""Tells a whole folder of converted weights from a half-written or damaged one.

The manifest is written last and lists every file with its size and SHA-256. Files up to 1 GiB are read whole, at 0.2 to
0.8 s for the default model; of larger ones the first and the last 16 MiB: sizes find what was cut off, and reading
tens of gigabytes twice at every start would cost more than it finds.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

MANIFEST = "manifest.json"
READ_WHOLE_UP_TO = 1 << 30
EDGE = 16 << 20


def write_manifest(folder: Path) -> None:
    """Describe every file of `folder` in its manifest and force all of it to the disk."""
    files = {path.name: _describe(path) for path in _files(folder)}
    (folder / MANIFEST).write_text(json.dumps({"files": files}, indent=1), encoding="utf-8")
    for path in (*_files(folder), folder / MANIFEST):
        _force_to_disk(path)


def is_whole(folder: Path) -> bool:
    """True if every file is there as the manifest says."""
    try:
        files = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["files"]
        return bool(files) and all(_describe(folder / name) == described for name, described in files.items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_file() and path.name != MANIFEST)


def _describe(path: Path) -> dict[str, int | str]:
    size = path.stat().st_size
    if size <= READ_WHOLE_UP_TO:
        return {"size": size, "sha256": digest_of(path)}
    with path.open("rb") as file:
        digest = hashlib.sha256(str(size).encode() + file.read(EDGE))
        file.seek(-EDGE, os.SEEK_END)
        digest.update(file.read())
        return {"size": size, "sha256": digest.hexdigest()}


def digest_of(path: Path) -> str:
    """Its SHA-256, in pieces that are few: after each, Python's lock must be won from whoever imports meanwhile."""
    digest, piece = hashlib.sha256(), memoryview(bytearray(EDGE))
    with path.open("rb", buffering=0) as file:
        while count := file.readinto(piece):
            digest.update(piece[:count])
    return digest.hexdigest()


def _force_to_disk(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
