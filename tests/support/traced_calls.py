"""Which functions of the package run between two moments, on every thread that starts after the trace began."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType

import myserve_ui

PACKAGE = Path(myserve_ui.__file__).parent


class CallTrace:
    """Collects code objects while it is `on`; comprehensions and lambdas count with the function they stand in."""

    def __init__(self) -> None:
        self.on = False
        self._codes: set[CodeType] = set()

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        if self.on and event == "call":
            self._codes.add(frame.f_code)

    def functions(self) -> set[tuple[str, str]]:
        """(file below the package, qualified name), each once."""
        return {
            (Path(code.co_filename).relative_to(PACKAGE).as_posix(), code.co_qualname.split(".<locals>.<")[0])
            for code in self._codes
            if Path(code.co_filename).is_relative_to(PACKAGE) and not code.co_name.startswith("<")
        }


@contextmanager
def traced_calls() -> Iterator[CallTrace]:
    """A trace for this thread and those that start from here on."""
    trace = CallTrace()
    threading.setprofile(trace)
    sys.setprofile(trace)
    try:
        yield trace
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
