"""Turns whatever can go wrong while a model loads into one sentence with the way out.

What libraries say besides, their progress bars and advice, is kept off the console; their errors still show.
"""

from __future__ import annotations

import errno
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from safetensors import SafetensorError
from transformers.utils import logging as transformers_logging

from myserve_ui.errors import ModelLoadError, MyServeError

logger = logging.getLogger(__name__)

MOST_WORDS = 160
"""Characters of a library's own words in a sentence."""
PATH = re.compile(r"(?<![\w/])(~|\.{1,2})?(/[^\s'\"`,;:()]+)+/?|\bhttps?://\S+")
PIP_INSTALL = re.compile(r"pip install ([\w.\[\]=<>~-]+(?: [\w.\[\]=<>~-]+)*)`")
CLASS = re.compile(r"<class '([\w.]+)'>")

OUT_OF_MEMORY = ("not enough memory", "out of memory", "can't allocate memory")

WRITTEN_BY_RUST = re.compile(r"\(os error (\d+)\)")
"""safetensors, tokenizers and the hub's client are written in Rust, which puts the number into the text."""

FULL_DISK = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""No space, no quota, or a file larger than the system allows."""


@contextmanager
def explain_load_errors(name: str) -> Iterator[None]:
    """Raise ModelLoadError for any failure inside the block. Only what no sentence explains shows its traceback."""
    try:
        yield
    except MyServeError:
        raise
    except Exception as error:
        sentence = explain(name, error)
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
        if explain(what, error):
            raise  # explain_load_errors, around this, has the better sentence
        logger.debug("reading failed: %s", what, exc_info=True)
        raise ModelLoadError(
            f"{what} cannot be read ({in_short(error)}): files are missing or damaged, download or copy them again."
        ) from error


def in_short(error: BaseException) -> str:
    """What is wrong in the library's words, without a path, a class name or a second line."""
    error = error.__cause__ or error
    words = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    line = next(iter(words.splitlines()), "")
    if isinstance(error, KeyError) and " " not in line:
        line = f"{line[:MOST_WORDS]!r} is not known"
    line = CLASS.sub(r"\1", PATH.sub("...", line)).strip().rstrip(".:")
    if len(line) > MOST_WORDS:
        line = line[:MOST_WORDS].rpartition(" ")[0] + " ..."
    return line or "no reason is given"


def explain(name: str, error: Exception) -> str | None:
    """A sentence for the kinds of failure that are to be expected. The cache folder explains its own."""
    if is_out_of_memory(error):
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
    return _missing_package(name, error) if isinstance(error, ImportError) else None


def _missing_package(name: str, error: ImportError) -> str | None:
    if wanted := PIP_INSTALL.search(str(error)):
        return f"{name} needs a package that is not installed: run `pip install {wanted[1]}`."
    return f"{name} needs a package that is not installed ({error.name}): install it first." if error.name else None


def _unexplained(name: str) -> str:
    return f"{name} could not be loaded; the log has the details. Try another model or the default one."


def is_out_of_memory(error: Exception) -> bool:
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error).lower() for words in OUT_OF_MEMORY)


def find_errno(error: BaseException) -> int | None:
    """The number, or None if `error` does not come from the operating system."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno
    written = WRITTEN_BY_RUST.search(str(error))
    return int(written[1]) if written else None


@contextmanager
def quiet_libraries() -> Iterator[None]:
    """transformers without bars and below-error lines inside the block; as before afterwards."""
    verbosity, had_bars = transformers_logging.get_verbosity(), transformers_logging.is_progress_bar_enabled()
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(verbosity)
        if had_bars:
            transformers_logging.enable_progress_bar()
