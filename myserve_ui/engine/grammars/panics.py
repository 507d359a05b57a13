"""Tells a panic of the grammar library from what must pass: it is a BaseException, which `except Exception` misses."""

from __future__ import annotations

PANIC = ("pyo3_runtime", "PanicException")


def is_panic(error: BaseException) -> bool:
    """Whether Rust code gave up, in a way that concerns the one grammar it worked on."""
    return (type(error).__module__, type(error).__name__) == PANIC
