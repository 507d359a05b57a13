"""What is known of this machine, and asked of it: versions, addresses that only it reaches, memory to be given back."""

from __future__ import annotations

import ctypes
import gc
import ipaddress
import platform
import sys
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version

from myserve_ui import __version__


def describe_versions(packages: Iterable[str]) -> dict[str, str]:
    """Of this project, of Python, and of each of `packages` that is installed: no number is measured again without."""
    found = {package: found for package in packages if (found := _version(package)) is not None}
    return {"myserve_ui": __version__, "python": platform.python_version(), **found}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def is_loopback(host: str) -> bool:
    """True for localhost and the addresses of the loopback network, an IPv6 one with or without its brackets."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def return_freed_memory() -> None:
    """Collect garbage, then give back what C's allocator keeps for a next time: hundreds of MiB after a load."""
    gc.collect()
    trim_heap()


def trim_heap() -> None:
    """Does nothing where the C library has no such call (it is glibc's)."""
    if sys.platform == "linux" and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)) is not None:
        trim(0)
