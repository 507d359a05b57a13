"""What a reader must know of a run's numbers beside what was asked: where prompts came from, how long they were."""

from __future__ import annotations

from collections.abc import Sequence

from myserve_ui.bench.documents.rows import Row
from myserve_ui.bench.documents.run import RunSettings
from myserve_ui.bench.workload import Lengths
from myserve_ui.core.number_words import percent


def mean_prompt_tokens(rows: Sequence[Row]) -> float | None:
    """Tokens of a prompt by the servers' usage, chat template and earlier turns with them; None if nothing came."""
    completed, total = sum(row.completed for row in rows), sum(row.prompt_tokens for row in rows)
    return total / completed if completed and total else None


def prompt_words(settings: RunSettings, rows: Sequence[Row]) -> str:
    """32 tokens (37 by usage), or of a file: chats.json (12 of them, 80.5 tokens by usage)."""
    mean, notes = mean_prompt_tokens(rows), []
    if settings.prompts:
        words = settings.prompts.source or "a file"
        notes.append(f"{settings.prompts.count:,} of them")
    else:
        words = f"{lengths_words(settings.prompt_tokens)} tokens"
    if mean is not None:
        notes.append(f"{round(mean, 1):,g} {'tokens ' if settings.prompts else ''}by usage")
    if settings.shared_prefix_tokens:
        notes.append(f"{settings.shared_prefix_tokens} shared")
    if settings.turns > 1:
        notes.append(f"{settings.turns} turns")
    return f"{words} ({', '.join(notes)})" if notes else words


def lengths_words(lengths: Lengths) -> str:
    """32, or 64 to 400."""
    return str(lengths).replace(":", " to ")


def cached_words(share: float | None) -> str:
    """19 % of the prompt tokens cached; cached prompt tokens not told."""
    return "cached prompt tokens not told" if share is None else f"{percent(share)} of the prompt tokens cached"


def salt_words(settings: RunSettings) -> str:
    """What a run did about prompts that a server may have kept; empty of a run that is older than salts."""
    if settings.salt is None:
        return ""
    return (
        f"salt {settings.salt}"
        if settings.salt
        else "no salt: prompts that a server kept from an earlier run are found again"
    )


def tpot_words(row: Row) -> str:
    """Of how few answers TPOT is, where it is not of all; else empty."""
    counted = row.tpot_ms.n if row.tpot_ms else 0
    if counted >= row.completed:
        return ""
    return f"TPOT of {counted} of {row.completed} answers; the others had one token, or came in one piece"
