"""What control groups of both versions leave to this process, read from trees of files like those of containers."""

from __future__ import annotations

from pathlib import Path

import pytest

from myserve_ui.core.container_limits import ContainerLimits, read_container_limits

MIB = 2**20
V2_MOUNT = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw"
V1_MEMORY = "35 31 0:32 {top} /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory"
V1_CPU = "32 31 0:29 {top} /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct"


def tree(root: Path, *, own: str, mounts: str, **files: str) -> Path:
    """The two files that say where this process is, and `files` of the groups, below `root`."""
    written = {"proc/self/cgroup": own, "proc/self/mountinfo": mounts}
    written |= {f"sys/fs/cgroup/{name}": text for name, text in files.items()}
    for name, text in written.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text + "\n")
    return root


def test_no_control_groups_bound_nothing(tmp_path: Path) -> None:
    limits = read_container_limits(tmp_path)
    assert limits == ContainerLimits()
    assert (limits.bound_memory(5), limits.bound_threads(64)) == (5, 64)


def test_version_2_counts_what_is_kept_of_files_as_free(tmp_path: Path) -> None:
    files = {
        "memory.max": str(900 * MIB),
        "memory.current": str(500 * MIB),
        "memory.stat": f"anon 1\ninactive_file {200 * MIB}\nactive_file 7",
        "cpu.max": "150000 100000",
    }
    limits = read_container_limits(tree(tmp_path, own="0::/", mounts=V2_MOUNT, **files))
    assert limits == ContainerLimits(900 * MIB, 600 * MIB, 1.5)


def test_the_narrowest_of_nested_groups_counts(tmp_path: Path) -> None:
    files = {
        "pod/memory.max": str(400 * MIB),
        "pod/memory.current": str(390 * MIB),
        "pod/cpu.max": "50000 100000",
        "pod/app/memory.max": "max",
        "pod/app/memory.high": str(800 * MIB),
        "pod/app/memory.current": str(100 * MIB),
        "pod/app/cpu.max": "max 100000",
    }
    limits = read_container_limits(tree(tmp_path, own="0::/pod/app", mounts=V2_MOUNT, **files))
    assert limits == ContainerLimits(400 * MIB, 10 * MIB, 0.5)


@pytest.mark.parametrize(
    ("own", "top", "folder"), [("/docker/a", "/docker/a", ""), ("/", "/", ""), ("/docker/a", "/", "docker/a/")]
)
def test_version_1_with_and_without_the_hosts_paths(tmp_path: Path, own: str, top: str, folder: str) -> None:
    files = {
        f"memory/{folder}memory.limit_in_bytes": str(900 * MIB),
        f"memory/{folder}memory.usage_in_bytes": str(300 * MIB),
        f"memory/{folder}memory.stat": f"inactive_file 1\ntotal_inactive_file {100 * MIB}",
        f"cpu,cpuacct/{folder}cpu.cfs_quota_us": "200000",
        f"cpu,cpuacct/{folder}cpu.cfs_period_us": "100000",
    }
    mounts = f"{V1_MEMORY}\n{V1_CPU}".format(top=top)
    limits = read_container_limits(tree(tmp_path, own=f"4:memory:{own}\n1:cpu,cpuacct:{own}", mounts=mounts, **files))
    assert limits == ContainerLimits(900 * MIB, 700 * MIB, 2.0)


def test_values_that_are_no_limit(tmp_path: Path) -> None:
    files = {
        "memory/memory.limit_in_bytes": "9223372036854771712",
        "cpu,cpuacct/cpu.cfs_quota_us": "-1",
        "cpu,cpuacct/cpu.cfs_period_us": "100000",
        "memory.max": "max",
        "cpu.max": "garbage",
    }
    mounts = f"{V1_MEMORY}\n{V1_CPU}\n{V2_MOUNT}".format(top="/")
    root = tree(tmp_path, own="4:memory:/\n1:cpu,cpuacct:/\n0::/../x\nbroken", mounts=mounts, **files)
    assert read_container_limits(root) == ContainerLimits()


@pytest.mark.parametrize(("cores", "threads"), [(0.5, 1), (1.5, 1), (1.95, 2), (2.0, 2), (100.0, 8), (None, 8)])
def test_threads_that_a_quota_carries(cores: float | None, threads: int) -> None:
    assert ContainerLimits(cores=cores).bound_threads(8) == threads
