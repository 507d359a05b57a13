"""Tells files by their content: one GGUF from another, a whole folder of converted weights from a damaged one.

A GGUF's whole SHA-256 is taken once and remembered while the file stays as the system knows it: device, inode, size,
and the times of its last change, of which one cannot be set. So a file that is written anew under its name and size is
read anew. The manifest of a folder is written last and lists every file with its size and SHA-256. Files up to 1 GiB
are read whole, at 0.2 to 0.8 s for the default model; of larger ones the first and the last 16 MiB: sizes find what was
cut off, and reading tens of gigabytes twice at every start would cost more than it finds.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from contextlib import suppress
from pathlib import Path

MANIFEST = "manifest.json"
READ_WHOLE_UP_TO = 1 << 30
EDGE = 16 << 20

DIGESTS = "digests"
SETTLED_SECONDS = 2.0
"""A file changed this lately may change again within the same tick of the system's clock: nothing is remembered yet."""


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


def content_digest(path: Path, *, cache: Path) -> str:
    """The SHA-256 of `path` in hexadecimal digits, from the memory in `cache` if the file is the same."""
    entry = cache / DIGESTS / f"{hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:16]}.json"
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
