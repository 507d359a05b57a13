"""Which blocks of the pool hold which row's tokens. Knows numbers of blocks; knows no tensors.

A row's tokens lie in blocks of BLOCK_SIZE tokens, in the order of its table. Blocks are given as the row's allocation
grows and freed from the table's end as it shrinks, so that what is in the blocks that stay is never moved.
"""

from __future__ import annotations

from collections.abc import Sequence

BLOCK_SIZE = 256
"""Tokens of a block: the paged flash kernel that comes with torch takes multiples of 256 alone."""

SCRATCH = 0
"""The block that belongs to no row: tokens that only fill up a batch are written there."""


class BlockTables:
    """Tables of `num_slots` rows over the blocks of a pool; `num_blocks` counts the scratch block too."""

    def __init__(self, num_slots: int) -> None:
        self.num_blocks = 1
        self._tables: list[list[int]] = [[] for _ in range(num_slots)]
        self._free: list[int] = []

    @property
    def num_slots(self) -> int:
        return len(self._tables)

    @property
    def num_used(self) -> int:
        """Blocks that belong to rows."""
        return sum(len(table) for table in self._tables)

    def __getitem__(self, slot: int) -> Sequence[int]:
        """The blocks of one row, in the order of its tokens."""
        return self._tables[slot]

    def place(self, slot: int, index: int) -> int:
        """Where token `index` of a row lies among all tokens of the pool."""
        return self._tables[slot][index // BLOCK_SIZE] * BLOCK_SIZE + index % BLOCK_SIZE

    def shrink(self, allocated: Sequence[int]) -> None:
        """Free the blocks beyond `allocated[slot]` tokens of each row; rows beyond the list keep none."""
        for slot, table in enumerate(self._tables):
            kept = count_blocks(allocated[slot]) if slot < len(allocated) else 0
            self._free += reversed(table[kept:])
            del table[kept:]

    def count_missing(self, allocated: Sequence[int]) -> int:
        """Blocks that the pool lacks for `allocated`, after `shrink`."""
        wanted = sum(count_blocks(length) for length in allocated)
        return max(0, wanted - self.num_used - len(self._free))

    def enlarge(self, num_blocks: int) -> None:
        """The pool has `num_blocks` now; the new ones are free."""
        self._free = [*range(num_blocks - 1, self.num_blocks - 1, -1), *self._free]
        self.num_blocks = num_blocks

    def grow(self, allocated: Sequence[int]) -> None:
        """Give each row blocks for `allocated[slot]` tokens. The pool must have them: see `count_missing`."""
        for table, length in zip(self._tables, allocated, strict=False):
            while len(table) < count_blocks(length):
                table.append(self._free.pop())

    def compact(self) -> list[tuple[int, int]]:
        """Number the used blocks 1 to `num_used`, and forget the rest of the pool.

        Returns the moves (from, to) that bring the contents along; no block is both.
        """
        num_blocks = 1 + self.num_used
        holes = sorted(block for block in self._free if block < num_blocks)
        moves = []
        for table in self._tables:
            for index, block in enumerate(table):
                if block >= num_blocks:
                    moves.append((block, holes.pop()))
                    table[index] = moves[-1][1]
        self.num_blocks, self._free = num_blocks, []
        return moves

    def check(self) -> None:
        """Integrity of the tables; an AssertionError is a mistake of ours."""
        blocks = [SCRATCH, *self._free, *(block for table in self._tables for block in table)]
        assert sorted(blocks) == list(range(self.num_blocks)), "a block is lost or has two owners"


def count_blocks(num_tokens: int) -> int:
    """Blocks that hold so many tokens."""
    return -(-num_tokens // BLOCK_SIZE)
