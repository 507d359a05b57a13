"""Keeps what goes wrong in one sequence's own part of a step to that sequence."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from myserve_ui.core.outputs import FinishReason
from myserve_ui.engine.sequence import Sequence

logger = logging.getLogger(__name__)

BROKEN = "The engine failed in a part of the step that was this answer's alone; other requests go on. Please try again."


def is_fault(error: BaseException) -> bool:
    """Whether `error` may be one sequence's: panics of Rust libraries are no Exception, and are faults too."""
    return not isinstance(error, KeyboardInterrupt | SystemExit | GeneratorExit)


@contextmanager
def harming_only(sequence: Sequence) -> Iterator[None]:
    """End `sequence` with an error if what is done inside, for it alone, raises."""
    try:
        yield
    except BaseException as error:  # the border of one sequence: the others of its step go on
        if not is_fault(error):
            raise
        end_broken(sequence)


def end_broken(sequence: Sequence) -> None:
    """End a sequence by the error that is being handled."""
    logger.exception("request %s failed in its own part of a step", sequence.request_id)
    sequence.finish(FinishReason.ERROR, error=BROKEN)
