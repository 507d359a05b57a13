"""How much memory and how many cores this process may use where control groups bound it, as they do in containers.

Linux alone has them. The files are read anew at every question: limits can be changed while the process runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

UNLIMITED = 2**60
"""Version 1 says "no limit" by a number that no machine has."""
MEMORY, CPU = "memory", "cpu"
ROOT = Path("/")


@dataclass(frozen=True, slots=True)
class ContainerLimits:
    """What the narrowest of the groups around this process leaves; None where none bounds it."""

    memory: int | None = None
    """Bytes that may be used in all."""
    free_memory: int | None = None
    """Bytes that may be taken yet; what is kept of files only in case somebody reads them again makes way."""
    cores: float | None = None
    """Seconds of processor time for each second, of all cores together."""

    def bound_memory(self, machine: int) -> int:
        """Bytes that may be taken yet, where the machine has `machine` free."""
        return machine if self.free_memory is None else min(machine, self.free_memory)

    def bound_threads(self, machine: int) -> int:
        """Threads that can compute at the same time for as long as they like, of `machine`.

        Rounded down, but for small parts: a quota of 1.5 cores spent by two threads holds both up for a quarter of the
        time, in the middle of a product for which the other waits.
        """
        return machine if self.cores is None else max(1, min(machine, math.floor(self.cores + SMALL_PART)))


SMALL_PART = 0.1


def read_container_limits(root: Path = ROOT) -> ContainerLimits:
    """The limits of this process, by the files below `root`, which is "/" but for tests."""
    memory = [bound for bound in map(_read_memory, _groups(root, MEMORY)) if bound is not None]
    cores = [bound for bound in map(_read_cores, _groups(root, CPU)) if bound is not None]
    return ContainerLimits(
        memory=min((limit for limit, _ in memory), default=None),
        free_memory=min((max(limit - used, 0) for limit, used in memory), default=None),
        cores=min(cores, default=None),
    )


@dataclass(frozen=True, slots=True)
class _Mount:
    """A hierarchy of groups as it is seen from here."""

    controllers: frozenset[str]
    """Of version 1; none: version 2, which has them all in one."""
    top: PurePosixPath
    """Group that is shown at `folder`."""
    folder: PurePosixPath


def _groups(root: Path, controller: str) -> Iterator[Path]:
    """Folders of the groups around this process in which `controller` may have a limit, the innermost first."""
    paths = _own_paths(root)
    for mount in _mounts(root):
        own = paths.get(controller if mount.controllers else "")
        if own is None or (mount.controllers and controller not in mount.controllers):
            continue
        inner = own.relative_to(mount.top) if own.is_relative_to(mount.top) and ".." not in own.parts else None
        for folder in _upwards(inner or PurePosixPath()):
            yield root / mount.folder.relative_to("/") / folder


def _upwards(folder: PurePosixPath) -> Iterator[PurePosixPath]:
    yield folder
    if folder.parts:
        yield from folder.parents


def _own_paths(root: Path) -> dict[str, PurePosixPath]:
    """Controller, "" for version 2, to the group of this process."""
    found: dict[str, PurePosixPath] = {}
    for line in _lines(root / "proc/self/cgroup"):
        _, _, rest = line.partition(":")
        controllers, colon, path = rest.partition(":")
        if colon:
            found |= {controller: PurePosixPath(path) for controller in controllers.split(",")}
    return found


def _mounts(root: Path) -> Iterator[_Mount]:
    for line in _lines(root / "proc/self/mountinfo"):
        place, _, kind = line.partition(" - ")
        fields, (system, _, options) = place.split(), (*kind.split(), "", "", "")[:3]
        if system not in ("cgroup", "cgroup2") or len(fields) < 5:
            continue
        controllers = frozenset(options.split(",")) if system == "cgroup" else frozenset()
        yield _Mount(controllers, PurePosixPath(fields[3]), PurePosixPath(fields[4]))


def _read_memory(group: Path) -> tuple[int, int] | None:
    """(limit, used) in bytes, of either version."""
    limits = [_number(group / name) for name in ("memory.max", "memory.high", "memory.limit_in_bytes")]
    known = [limit for limit in limits if limit is not None and limit < UNLIMITED]
    if not known:
        return None
    used = _number(group / "memory.current") or _number(group / "memory.usage_in_bytes") or 0
    statistics = dict(line.split(maxsplit=1) for line in _lines(group / "memory.stat") if " " in line)
    unneeded = statistics.get("total_inactive_file") or statistics.get("inactive_file") or "0"
    return min(known), max(used - (int(unneeded) if unneeded.isdigit() else 0), 0)


def _read_cores(group: Path) -> float | None:
    words = next(iter(_lines(group / "cpu.max")), "").split()
    quota, period = (words[0], words[1]) if len(words) == 2 else _old_quota(group)
    if not quota.isdigit() or not period.isdigit() or 0 in (int(quota), int(period)):
        return None  # "max" and -1: no limit
    return int(quota) / int(period)


def _old_quota(group: Path) -> tuple[str, str]:
    """(quota, period) as version 1 says it."""
    names = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
    quota, period = (next(iter(_lines(group / name)), "").strip() for name in names)
    return quota, period


def _number(file: Path) -> int | None:
    text = next(iter(_lines(file)), "").strip()
    return int(text) if text.isdigit() else None


def _lines(file: Path) -> list[str]:
    """None of a file that is not there or may not be read."""
    try:
        return file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
