"""Does a step that raised in parts, so that it harms nobody but the sequences that break it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from myserve_ui.engine.scheduler import ScheduledBatch, ScheduledChunk
from myserve_ui.engine.sequence import is_fault

logger = logging.getLogger(__name__)

Attempt = Callable[[ScheduledBatch], bool]
"""Does a step; False if the memory ran out, and nothing was done. Raises what breaks it, before anything is booked."""


@dataclass(slots=True)
class Bisection:
    """What came of a step that was done in parts."""

    culprits: list[ScheduledChunk] = field(default_factory=list)
    """Those that break a step even alone."""
    left: ScheduledBatch | None = None
    """What is not done because the memory ran out, with what would have to be cleared and copied for it."""
    is_prepared: bool = False
    """Whether the batch's rows were cleared and copied."""


def bisect_step(batch: ScheduledBatch, attempt: Attempt) -> Bisection:
    """Do a step that raised in halves, and their halves, until what still raises is one sequence each.

    At most twice as many tries as the batch has sequences. Rows are cleared and copied by the first part that is
    done; until then by every try, since one that raised may have been in the middle of it, and nothing of it is lost
    by doing it again.
    """
    bisection, waiting = Bisection(), _halves(batch.chunks)
    if not waiting:
        bisection.culprits += batch.chunks
    while waiting:
        part = replace(batch, chunks=waiting.pop(0))
        if bisection.is_prepared:
            part = replace(part, clears=(), copies=())
        try:
            is_done = attempt(part)
        except BaseException as error:  # the border of these sequences: the others of the step go on
            if not is_fault(error):
                raise
            halves = _halves(part.chunks)
            waiting[:0] = halves
            if not halves:
                logger.warning(
                    "request %s breaks its step: %s", part.chunks[0].sequence.request_id, type(error).__name__
                )
                bisection.culprits += part.chunks
            continue
        if not is_done:
            bisection.left = replace(part, chunks=(*part.chunks, *(chunk for rest in waiting for chunk in rest)))
            break
        bisection.is_prepared = True
    return bisection


def _halves(chunks: tuple[ScheduledChunk, ...]) -> list[tuple[ScheduledChunk, ...]]:
    """Both halves; none of what cannot be halved."""
    middle = len(chunks) // 2
    return [chunks[:middle], chunks[middle:]] if middle else []
