"""The file beside standard output that a command writes its document to, checked before the work begins."""

from __future__ import annotations

from pathlib import Path

from myserve_ui.errors import InvalidRequestError, MyServeError


def check_json_file(path: str | None) -> None:
    """Raises InvalidRequestError if nothing can be written there; leaves whatever is there as it is."""
    if path is None:
        return
    target = Path(path)
    try:
        is_new = not target.exists()
        target.open("a").close()
        if is_new:
            target.unlink()
    except (OSError, ValueError) as error:
        raise InvalidRequestError(f"{path} cannot be written: {_reason(error)}.", param="json") from None


def write_json_file(path: str | None, line: str) -> None:
    """Raises MyServeError if it cannot be written after all, such as on a full disk."""
    if path is None:
        return
    try:
        Path(path).write_text(line + "\n", encoding="utf-8")
    except OSError as error:
        raise MyServeError(f"{path} cannot be written: {_reason(error)}. The document is on standard output.") from None


def _reason(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
