"""Keeps the books of the cache: who owns which row, what is in it, and how many tokens the memory may hold.

Knows rows and tokens; knows no tensors. A row ("slot") holds the keys and values of one sequence. When the sequence
ends its row is kept: a later prompt that begins with the same tokens takes the row over, or copies the common part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

ROUND_TO = 64
"""Memory is allocated in steps of this many tokens."""


@dataclass(frozen=True, slots=True)
class SlotCopy:
    """Copy the first `length` tokens of one row to another before the next forward."""

    source: int
    target: int
    length: int


@dataclass(frozen=True, slots=True)
class Allocation:
    slot: int
    num_cached_tokens: int
    copy: SlotCopy | None = None


@dataclass(slots=True)
class _Row:
    token_ids: list[int] = field(default_factory=list)
    """Tokens whose keys and values are in the row; for an owned row, those it had when it was taken."""
    owned: bool = False
    allocated: int = 0
    last_used: int = 0


class SlotManager:
    """Rows and a budget of tokens.

    `num_slots` rows, of which each may hold `max_len` tokens, all together at most `max_tokens`. A single sequence
    always fits: max_tokens >= max_len, rounded up to ROUND_TO.
    """

    def __init__(self, num_slots: int, max_len: int, max_tokens: int) -> None:
        if max_tokens < _rounded(max_len):
            raise ValueError(f"a budget of {max_tokens} tokens cannot hold one sequence of {max_len}")
        self.max_len = max_len
        self.max_tokens = max_tokens
        self.lookup_tokens = 0
        """Prompt tokens looked up since the start."""
        self.hit_tokens = 0
        """Of those, found in a row."""
        self._rows = [_Row() for _ in range(num_slots)]
        self._dirty: list[int] = []
        self._sources: set[int] = set()
        """Rows that are yet to be copied from: they stay as they are until the step is over."""
        self._clock = 0

    @property
    def num_slots(self) -> int:
        return len(self._rows)

    @property
    def used_tokens(self) -> int:
        """Tokens allocated to running sequences."""
        return sum(row.allocated for row in self._rows if row.owned)

    @property
    def kept_tokens(self) -> int:
        """Tokens of ended sequences, kept for reuse until the memory is wanted."""
        return sum(row.allocated for row in self._rows if not row.owned)

    def allocated(self) -> list[int]:
        """Tokens allocated per row, owned or kept."""
        return [row.allocated for row in self._rows]

    def start_step(self) -> None:
        """The copies of the step before are made, or given up."""
        self._sources.clear()

    def allocate(self, token_ids: Sequence[int], *, reuse: bool = True) -> Allocation | None:
        """Give a row to a sequence that must compute `token_ids`, or None if rows or memory are short.

        At least the last token is left to compute, since its logits are what the sequence waits for.
        """
        self._clock += 1
        source, num_cached = self._longest_prefix(token_ids) if reuse else (None, 0)
        target = self._choose_row(source, num_cached)
        if target is not None and not self._evict_for(_rounded(len(token_ids)), keep={source, target}, replaced=target):
            source, num_cached, target = None, 0, self._choose_row(None, 0)  # the source itself is in the way
        if target is None or not self._evict_for(_rounded(len(token_ids)), keep={source, target}, replaced=target):
            return None
        self.lookup_tokens += len(token_ids)
        self.hit_tokens += num_cached
        self._rows[target] = _Row(list(token_ids[:num_cached]), True, _rounded(len(token_ids)), self._clock)
        if source is None or source == target:
            return Allocation(target, num_cached)
        self._sources.add(source)
        return Allocation(target, num_cached, SlotCopy(source, target, num_cached))

    def grow(self, slot: int, num_tokens: int) -> bool:
        """Allocate memory so that the row holds `num_tokens`; False if there is none left."""
        row = self._rows[slot]
        missing = _rounded(num_tokens) - row.allocated
        if missing <= 0:
            return True
        if not self._evict_for(missing, keep={slot}):
            return False
        row.allocated += missing
        return True

    def record(self, slot: int, token_ids: Sequence[int]) -> None:
        """Note that the row now also holds the keys and values of `token_ids`, so that others may copy them."""
        self._rows[slot].token_ids.extend(token_ids)

    def last_recorded(self, slot: int) -> int:
        """The last token whose keys and values are in the row."""
        return self._rows[slot].token_ids[-1]

    def empty(self, slot: int) -> None:
        """The row's owner computes it again from the first token."""
        self._rows[slot].token_ids.clear()

    def release(self, slot: int, *, keep: bool = True) -> None:
        """Free the row. What was recorded stays for reuse, unless `keep` is False: then it must be cleared."""
        row = self._rows[slot]
        row.owned = False
        if keep and row.token_ids:
            row.allocated, row.last_used = _rounded(len(row.token_ids)), self._clock
            return
        self._rows[slot] = _Row()
        if not keep:
            self._dirty.append(slot)

    def mark_dirty(self, slots: Sequence[int]) -> None:
        """Rows that were to be cleared, and may not have been."""
        self._dirty = sorted({*self._dirty, *slots})

    def take_dirty(self) -> tuple[int, ...]:
        """Rows whose contents must be cleared before they are read again: NaN survives a mask."""
        dirty, self._dirty = tuple(self._dirty), []
        return dirty

    def evict_kept(self) -> None:
        """Give up every kept row."""
        self._rows = [row if row.owned else _Row() for row in self._rows]

    def check(self) -> None:
        """Integrity of rows and budget; an AssertionError is a mistake of ours."""
        assert self.used_tokens + self.kept_tokens <= self.max_tokens, "more tokens are allocated than the budget has"
        for row in self._rows:
            assert len(row.token_ids) <= row.allocated <= _rounded(self.max_len), "a row overflows"

    def _longest_prefix(self, token_ids: Sequence[int]) -> tuple[int | None, int]:
        wanted = list(token_ids[:-1])
        best, length = None, 0
        for slot, row in enumerate(self._rows):
            if (common := common_prefix_length(row.token_ids, wanted)) > length:
                best, length = slot, common
        return best, length

    def _choose_row(self, source: int | None, num_cached: int) -> int | None:
        """The source itself if little of it would be lost, else an empty row, else the kept row unused for longest."""
        if source is not None and self._may_take_over(source, num_cached):
            return source
        free = [slot for slot, row in enumerate(self._rows) if not row.owned and slot not in self._sources]
        return min(free, key=lambda slot: (self._rows[slot].last_used, slot), default=None)

    def _may_take_over(self, source: int, num_cached: int) -> bool:
        row = self._rows[source]
        return not row.owned and source not in self._sources and 2 * num_cached >= len(row.token_ids)

    def _evict_for(self, num_tokens: int, keep: set[int | None], *, replaced: int | None = None) -> bool:
        """Evict kept rows, unused for longest first, until `num_tokens` more fit; none if that cannot be."""
        freed = 0 if replaced is None else self._rows[replaced].allocated
        free = self.max_tokens - self.used_tokens - self.kept_tokens + freed
        keep = keep | self._sources
        kept = [slot for slot, row in enumerate(self._rows) if not row.owned and row.allocated and slot not in keep]
        if free + sum(self._rows[slot].allocated for slot in kept) < num_tokens:
            return False
        for slot in sorted(kept, key=lambda slot: self._rows[slot].last_used):
            if free >= num_tokens:
                break
            free += self._rows[slot].allocated
            self._rows[slot] = _Row()
        return True


def common_prefix_length(first: Sequence[int], second: Sequence[int]) -> int:
    """How many tokens both begin with: a bisection over slice comparisons, which run at C speed."""
    low, high = 0, min(len(first), len(second))
    while low < high:
        middle = (low + high + 1) // 2
        if first[low:middle] == second[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _rounded(num_tokens: int) -> int:
    return -(-num_tokens // ROUND_TO) * ROUND_TO
