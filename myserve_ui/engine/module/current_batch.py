"""Which batch a forward computes: how an attention function finds it, whatever the layers above it pass on.

Some families do not hand the keywords of their forward down to attention, so a keyword does not reach it everywhere.
"""

from __future__ import annotations

import contextvars
from collections.abc import Iterator
from contextlib import contextmanager

_current: contextvars.ContextVar[object] = contextvars.ContextVar("current_batch")


@contextmanager
def computing(batch: object) -> Iterator[None]:
    """Inside the block, attention belongs to `batch`."""
    token = _current.set(batch)
    try:
        yield
    finally:
        _current.reset(token)


def current_batch() -> object:
    """The batch of the forward that is being computed. Raises LookupError outside of one."""
    return _current.get()
