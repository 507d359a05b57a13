"""Finds the operating system's error number in an exception, whatever library raised it."""

from __future__ import annotations

import errno
import re

WRITTEN_BY_RUST = re.compile(r"\(os error (\d+)\)")
"""safetensors, tokenizers and the hub's client are written in Rust, which puts the number into the text."""

FULL_DISK = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""No space, no quota, or a file larger than the system allows."""


def find_errno(error: BaseException) -> int | None:
    """The number, or None if `error` does not come from the operating system."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno
    written = WRITTEN_BY_RUST.search(str(error))
    return int(written[1]) if written else None
