"""Masks of the tokens that grammars allow, for the rows of a batch that have one."""

from __future__ import annotations

from collections.abc import Callable, Sequence as SequenceOf
from dataclasses import dataclass

import torch

from myserve_ui.engine.device_copies import to_device
from myserve_ui.engine.grammars.matcher import Matcher
from myserve_ui.engine.sequence import Sequence

BITS_OF_BYTE = 8


@dataclass(frozen=True, slots=True)
class GrammarMasks:
    """What grammars allow in some rows of a batch."""

    rows: SequenceOf[int]
    bits: torch.Tensor  # [len(rows), mask_bytes], uint8, on the CPU


Background = Callable[[Callable[[], GrammarMasks]], Callable[[], GrammarMasks]]
"""Starts some work and returns what waits for its result."""


def in_the_foreground(work: Callable[[], GrammarMasks]) -> Callable[[], GrammarMasks]:
    """Works only once the result is asked for: where there is no thread to spare."""
    return work


def start_masks(sequences: SequenceOf[Sequence], background: Background) -> Callable[[], GrammarMasks | None]:
    """Begin the masks of the rows that have a grammar; the result is waited for by calling what comes back."""
    rows = [row for row, sequence in enumerate(sequences) if sequence.matcher is not None]
    if not rows:
        return lambda: None
    matchers = [matcher for sequence in sequences if (matcher := sequence.matcher) is not None]
    return background(lambda: GrammarMasks(rows, fill_masks(matchers)))


def fill_masks(matchers: SequenceOf[Matcher]) -> torch.Tensor:
    """Allowed next tokens of each matcher: packed bits [num_matchers, mask_bytes], uint8, on the CPU.

    Touches no model and no other row, so it may run on another thread while a forward runs. A matcher that fails here
    says so in its `failure`, and its mask allows nothing.
    """
    masks = torch.empty(len(matchers), matchers[0].mask_bytes, dtype=torch.uint8)
    for mask, matcher in zip(masks, matchers, strict=True):
        matcher.write_mask(mask.data_ptr())
    return masks


def forbid_tokens(logits: torch.Tensor, masks: GrammarMasks | None) -> None:
    """Lower the logits [num_seqs, vocab] of what `masks` do not allow to -inf, in place; None allow everything.

    Other rows are not touched. Adding is many times quicker than filling by a boolean mask on a CPU.
    """
    if masks is None:
        return
    bias = mask_to_bias(masks.bits.to(logits.device, non_blocking=True), logits.dtype)[:, : logits.shape[-1]]
    logits.index_add_(0, to_device(masks.rows, torch.long, logits.device), bias)


def mask_to_bias(masks: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Packed bits [rows, bytes] as [rows, 8 * bytes] of 0 where allowed and -inf where not."""
    values = torch.arange(1 << BITS_OF_BYTE, device=masks.device)[:, None]
    bits = torch.arange(BITS_OF_BYTE, device=masks.device)
    bias_of_byte = torch.where((values >> bits) & 1 == 1, 0.0, float("-inf")).to(dtype)  # [256, 8]
    return torch.nn.functional.embedding(masks.int(), bias_of_byte).flatten(1)
