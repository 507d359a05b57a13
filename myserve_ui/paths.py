"""Where the project's own files lie: in a checkout beside the package, in an installed one inside it."""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
IMPORT_ROOT = PACKAGE.parent
"""The folder that `myserve_ui` is imported from: the checkout's, or site-packages."""


def asset(name: str) -> Path:
    """A file of assets/, by its path below it: "style.css"."""
    inside = PACKAGE / "assets"  # where the wheel puts them; see pyproject.toml
    return (inside if inside.is_dir() else IMPORT_ROOT / "assets") / name
