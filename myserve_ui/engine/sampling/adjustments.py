"""What a request may do to its logits before a token is chosen: penalties, bias, and ends that come too early.

Rows that ask for nothing cost nothing; the wishes of all others go to the device as one list of entries.
"""

from __future__ import annotations

from collections.abc import Sequence as SequenceOf

import torch

from myserve_ui.engine.device_copies import to_device
from myserve_ui.engine.sequence import Sequence

Entries = list[tuple[int, int, float]]
"""(row, token id, value)"""


FARTHEST = 1e30
"""What a logit becomes at most by a penalty: finite, and still when the lowest temperature divides it."""


def adjust_logits(logits: torch.Tensor, sequences: SequenceOf[Sequence], eos_token_ids: SequenceOf[int]) -> None:
    """Change `logits` [num_seqs, vocab] in place.

    In this order: repetition_penalty (divides what is positive, multiplies what is negative, for tokens of prompt and
    answer; Keskar et al. 2019), presence and frequency penalties (subtracted, tokens of the answer alone), logit_bias
    (added), end tokens before min_tokens (forbidden).
    """
    vocab_size = logits.shape[-1]
    if repeated := _repeated_tokens(sequences, vocab_size):
        rows, token_ids, penalties = _columns(repeated, logits)
        values = logits[rows, token_ids]
        # In bounds, so that a tiny or huge penalty is not taken for a model that computes what is no number.
        penalised = torch.where(values > 0, values / penalties, values * penalties)
        logits[rows, token_ids] = penalised.clamp_(-FARTHEST, FARTHEST)
    if added := _additions(sequences):
        rows, token_ids, values = _columns(added, logits)
        logits.index_put_((rows, token_ids), values, accumulate=True)
    if forbidden := _early_ends(sequences, eos_token_ids, vocab_size):
        rows, token_ids, values = _columns(forbidden, logits)
        logits[rows, token_ids] = values


def _repeated_tokens(sequences: SequenceOf[Sequence], vocab_size: int) -> Entries:
    """A prompt may hold ids that the model reads and never says: those have no logit."""
    return [
        (row, token_id, sequence.params.repetition_penalty or 1.0)
        for row, sequence in enumerate(sequences)
        if (sequence.params.repetition_penalty or 1.0) != 1.0
        for token_id in set(sequence.token_ids)
        if token_id < vocab_size
    ]


def _additions(sequences: SequenceOf[Sequence]) -> Entries:
    entries: Entries = []
    for row, sequence in enumerate(sequences):
        params = sequence.params
        entries += [(row, token_id, bias) for token_id, bias in params.logit_bias]
        if params.presence_penalty or params.frequency_penalty:
            entries += [
                (row, token_id, -params.presence_penalty - count * params.frequency_penalty)
                for token_id, count in sequence.output_counts.items()
            ]
    return entries


def _early_ends(sequences: SequenceOf[Sequence], eos_token_ids: SequenceOf[int], vocab_size: int) -> Entries:
    return [
        (row, token_id, float("-inf"))
        for row, sequence in enumerate(sequences)
        if sequence.num_output_tokens < sequence.params.min_tokens
        for token_id in (*eos_token_ids, *sequence.params.stop_token_ids)
        if token_id < vocab_size
    ]


def _columns(entries: Entries, like: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    rows, token_ids, values = zip(*entries, strict=True)
    return (
        to_device(rows, torch.long, like.device),
        to_device(token_ids, torch.long, like.device),
        to_device(values, like.dtype, like.device),
    )
