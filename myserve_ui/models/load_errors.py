"""Turns whatever can go wrong while a model loads into one sentence with the way out."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from safetensors import SafetensorError

from myserve_ui.errors import ModelLoadError, MyServeError
from myserve_ui.models.system_errors import FULL_DISK, find_errno

logger = logging.getLogger(__name__)

OUT_OF_MEMORY = ("not enough memory", "out of memory", "can't allocate memory")


@contextmanager
def explain_load_errors(name: str) -> Iterator[None]:
    """Raise ModelLoadError for any failure inside the block. Only what no sentence explains shows its traceback."""
    try:
        yield
    except MyServeError:
        raise
    except Exception as error:
        sentence = _explain(name, error)
        logger.log(logging.DEBUG if sentence else logging.ERROR, "loading %s failed", name, exc_info=True)
        raise ModelLoadError(sentence or _unexplained(name)) from error


@contextmanager
def explain_file_errors(what: str) -> Iterator[None]:
    """Raise ModelLoadError for whatever transformers says of bad files; it has no class for it."""
    try:
        yield
    except (MyServeError, ImportError):
        raise
    except Exception as error:
        if _explain(what, error):
            raise  # explain_load_errors, around this, has the better sentence
        logger.debug("reading failed: %s", what, exc_info=True)
        raise ModelLoadError(
            f"{what} cannot be read ({_in_short(error)}): files are missing or damaged, download or copy them again."
        ) from error


def _in_short(error: BaseException) -> str:
    """What is wrong in the library's words, without a path."""
    error = error.__cause__ or error
    line = next(iter(str(error).splitlines()), "").strip().rstrip(".:")
    return type(error).__name__ if not line or "/" in line else f"{type(error).__name__}: {line[:100]}"


def _explain(name: str, error: Exception) -> str | None:
    """A sentence for the kinds of failure that are to be expected. The cache folder explains its own."""
    if _is_out_of_memory(error):
        return (
            f"{name} does not fit into memory: choose a smaller model, 4 bits with --precision nf4 or "
            "MYSERVE_PRECISION=nf4, or 16 bits with --dtype bf16 or MYSERVE_DTYPE=bf16."
        )
    if find_errno(error) in FULL_DISK:
        return f"There is no room for the files of {name}: free some, or set HF_HOME to a folder elsewhere."
    if isinstance(error, SafetensorError):
        return f"The weights of {name} are damaged or incomplete: download or copy them again."
    if isinstance(error, PermissionError | NotADirectoryError | FileExistsError):
        return (
            f"The files of {name} may not be read or written: change their permissions, or set HF_HOME to a folder of "
            "your own if they come from the hub."
        )
    if isinstance(error, ImportError) and error.name:
        return f"{name} needs a package that is not installed ({error.name}): install it first."
    return None


def _unexplained(name: str) -> str:
    return f"{name} could not be loaded; the log has the details. Try another model or the default one."


def _is_out_of_memory(error: Exception) -> bool:
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error).lower() for words in OUT_OF_MEMORY)
