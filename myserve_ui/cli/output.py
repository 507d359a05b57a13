"""What a command gives: one document, the last line of standard output and a file; words to the person beside it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from myserve_ui.documents import Document
from myserve_ui.errors import InvalidRequestError, MyServeError
from myserve_ui.server.process import discard_output


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


def deliver(document: Document, path: str | None) -> None:
    """One line of JSON on standard output, and in the file at `path` if there is one."""
    line = json.dumps(document.as_json(), allow_nan=False)
    try:
        write_output(f"{line}\n")
    finally:
        _write(path, line)


def write_output(text: str = "") -> None:
    """Write `text` and all that waits. Raises MyServeError, or BrokenPipeError if the reader has left."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        discard_output()
        raise MyServeError(f"Standard output cannot be written: {_reason(error)}.") from None


def tell(message: str) -> None:
    """A line to the person at the terminal."""
    print(message, file=sys.stderr, flush=True)


def _write(path: str | None, line: str) -> None:
    """Raises MyServeError if it cannot be written after all, such as on a full disk."""
    if path is None:
        return
    try:
        Path(path).write_text(line + "\n", encoding="utf-8")
    except OSError as error:
        raise MyServeError(f"{path} cannot be written: {_reason(error)}. The document is on standard output.") from None


def _reason(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
