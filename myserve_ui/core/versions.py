"""Which versions are installed: a number without them cannot be measured again."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version

from myserve_ui import __version__


def describe_versions(packages: Iterable[str]) -> dict[str, str]:
    """Of this project, of Python, and of each of `packages` that is installed."""
    found = {package: found for package in packages if (found := _version(package)) is not None}
    return {"myserve_ui": __version__, "python": platform.python_version(), **found}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
