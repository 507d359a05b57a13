"""Where the app keeps what it makes: the user's own folders, or a temporary one where no home can be written to."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from myserve_ui.errors import SettingsError

APP = "myserve-ui"


def own_folder(find: Callable[[str], str], kind: str) -> Path:
    """What `find` says for this app; in `temporary_home` if that is nowhere, or cannot be written to."""
    try:
        folder = Path(find(APP))
    except RuntimeError:  # a user whom the system does not know, and no HOME
        return temporary_home() / kind
    return folder if can_be_made(folder) else temporary_home() / kind


def temporary_home() -> Path:
    """A folder of this user's own among the temporary ones, the same at every start. Raises SettingsError."""
    try:
        folder = Path(tempfile.gettempdir()) / f"{APP}-{os.getuid() if hasattr(os, 'getuid') else 'user'}"
        folder.mkdir(mode=0o700, exist_ok=True)
        if not hasattr(os, "getuid") or folder.lstat().st_uid == os.getuid():
            return folder
        return Path(tempfile.mkdtemp(prefix=f"{APP}-"))  # somebody else was there first: nothing is read from theirs
    except OSError:
        raise SettingsError(
            "No folder can be written to, neither a home nor a temporary one: name some with HOME and TMPDIR."
        ) from None


def is_temporary(folder: Path) -> bool:
    """True for what `own_folder` put among the temporary ones."""
    return folder.is_relative_to(tempfile.gettempdir()) and folder.parent.name.startswith(f"{APP}-")


def can_be_made(folder: Path) -> bool:
    """True if this process may write to `folder`, or may make it."""
    nearest = next((str(place) for place in (folder, *folder.parents) if os.path.exists(place)), "")
    return os.path.isdir(nearest) and os.access(nearest, os.W_OK | os.X_OK)
