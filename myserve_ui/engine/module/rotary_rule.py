"""Which rotary frequencies a token gets where these depend on how long its sequence is. Knows no tensors.

Models made for two lengths (longrope), or stretched as they go (dynamic NTK), turn keys by frequencies that depend on
the length of the text at hand. `generate` sees one text at a time: a prompt is turned by the prompt's whole length, a
token that is decoded by the length with it. This is the same for each sequence of a batch by itself, so that no
neighbour changes another's keys, and keys that were turned in one way are never taken for others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

KIND_SHIFT = 40
"""Bits left for a token id beside its kind."""


class Measured(Protocol):
    """What is asked of a sequence."""

    @property
    def num_tokens(self) -> int: ...
    @property
    def num_prompt_tokens(self) -> int: ...
    @property
    def token_ids(self) -> list[int]: ...


@dataclass(frozen=True, slots=True)
class RotaryRule:
    """Where frequencies change. A kind is a length that stands for all that are turned alike; 0 is the plain way."""

    switches: tuple[int, ...] = ()
    """Above each, other frequencies hold."""
    grows_from: int | None = None
    """Above this, every length has frequencies of its own."""
    restarts: bool = False
    """Whether a text that grows beyond a switch is computed anew from its first token."""

    @property
    def borders(self) -> set[int]:
        """Every length at which something changes."""
        return {*self.switches, *([] if self.grows_from is None else [self.grows_from])}

    def kind(self, length: int) -> int:
        """The kind of a token that sees a text of `length`."""
        if self.grows_from is not None and length > self.grows_from:
            return length
        return max((switch + 1 for switch in self.switches if length > switch), default=0)

    def kinds(self, sequence: Measured, start: int, end: int) -> list[int]:
        """Of the tokens [start, end) of `sequence`, as they are computed now."""
        if self.restarts:
            return [self.kind(sequence.num_tokens)] * (end - start)
        prompt = self.kind(sequence.num_prompt_tokens)
        cut = min(max(start, sequence.num_prompt_tokens), end)
        return [prompt] * (cut - start) + [self.kind(position + 1) for position in range(cut, end)]

    def prefix_keys(self, sequence: Measured, start: int, end: int) -> list[int]:
        """The token ids [start, end), each told apart by its kind."""
        ids, kinds = sequence.token_ids[start:end], self.kinds(sequence, start, end)
        return [token_id | kind << KIND_SHIFT for token_id, kind in zip(ids, kinds, strict=True)]
