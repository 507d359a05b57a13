"""Turns whatever can go wrong while a model loads into one sentence with the way out."""

from __future__ import annotations

import errno
import logging
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from safetensors import SafetensorError

from myserve_ui.errors import ModelLoadError, MyServeError

logger = logging.getLogger(__name__)

OUT_OF_MEMORY = ("not enough memory", "out of memory", "can't allocate memory")


@contextmanager
def explain_load_errors(name: str) -> Iterator[None]:
    """Raise ModelLoadError for any failure inside the block; the details go to the log, not into the sentence."""
    try:
        yield
    except MyServeError:
        raise
    except Exception as error:
        logger.exception("loading %s failed", name)
        raise ModelLoadError(_explain(name, error)) from error


def _explain(name: str, error: Exception) -> str:
    if _is_out_of_memory(error):
        return (
            f"{name} does not fit into memory: choose a smaller model, 4 bits with MYSERVE_PRECISION=nf4, "
            "or 16 bits with MYSERVE_DTYPE=bf16."
        )
    if isinstance(error, SafetensorError):
        return f"The weights of {name} are damaged or incomplete: download or copy them again."
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "There is no space left for the model's files: free some, or set MYSERVE_CACHE to another folder."
    if isinstance(error, PermissionError | NotADirectoryError | FileExistsError):
        return "The model's files may not be read or written here: set MYSERVE_CACHE to a folder of your own."
    if isinstance(error, ImportError):
        return f"{name} needs a package that is not installed ({error.name or 'see the log'}): install it first."
    return f"{name} could not be loaded; the log has the details. Try another model or the default one."


def _is_out_of_memory(error: Exception) -> bool:
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error).lower() for words in OUT_OF_MEMORY)
