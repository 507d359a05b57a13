"""What a reader must know of a run's numbers beside what was asked: where prompts came from, how long they were."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def mean_prompt_tokens(rows: Sequence[Mapping[str, Any]]) -> float | None:
    """Tokens of a prompt by the servers' usage, chat template and earlier turns with them; None if nothing came."""
    completed = sum(row["completed"] for row in rows)
    total = sum(row.get("prompt_tokens") or 0 for row in rows)
    return total / completed if completed and total else None


def prompt_words(settings: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> str:
    """32 tokens (37 by usage), or of a file: chats.json (12 of them, 80.5 tokens by usage)."""
    mean, notes = mean_prompt_tokens(rows), []
    if prompts := settings.get("prompts"):
        words = str(prompts.get("from") or "a file")
        notes.append(f"{prompts['count']:,} of them")
    else:
        words = f"{lengths_words(settings['prompt_tokens'])} tokens"
    if mean is not None:
        notes.append(f"{round(mean, 1):,g} {'tokens ' if prompts else ''}by usage")
    if shared := settings.get("shared_prefix_tokens"):
        notes.append(f"{shared} shared")
    if (turns := settings.get("turns") or 1) > 1:
        notes.append(f"{turns} turns")
    return f"{words} ({', '.join(notes)})" if notes else words


def lengths_words(lengths: str) -> str:
    """32, or 64 to 400."""
    low, _, high = lengths.partition(":")
    return f"{low} to {high}" if high else low


def cached_words(share: float | None) -> str:
    """19 % of the prompt tokens cached; cached prompt tokens not told."""
    if share is None:
        return "cached prompt tokens not told"
    return f"{100 * share:.0f} % of the prompt tokens cached"


def salt_words(settings: Mapping[str, Any]) -> str:
    """What a run did about prompts that a server may have kept; empty of a run that is older than salts."""
    if (salt := settings.get("salt")) is None:
        return ""
    return f"salt {salt}" if salt else "no salt: prompts that a server kept from an earlier run are found again"


def tpot_words(row: Mapping[str, Any]) -> str:
    """Of how few answers TPOT is, where it is not of all; else empty."""
    counted = (row.get("tpot_ms") or {}).get("n", 0)
    if counted >= row["completed"]:
        return ""
    return f"TPOT of {counted} of {row['completed']} answers; the others had one token, or came in one piece"
