"""What a request may do to its logits before a token is chosen: penalties, bias, and ends that come too early.

Each function changes `logits` [num_seqs, vocab] in place. Sequences that ask for nothing cost nothing; what the others
ask for goes to the device as one list of entries.
"""

from __future__ import annotations

from collections.abc import Sequence as SequenceOf

import torch

from myserve_ui.engine.device_copies import to_device
from myserve_ui.engine.sequence import Sequence

Entry = tuple[int, int, float]
"""(index of the sequence, token id, value)"""

FARTHEST = 1e30
"""What a logit becomes at most by a penalty: finite, and still when the lowest temperature divides it."""


def penalise_repetition(logits: torch.Tensor, sequences: SequenceOf[Sequence]) -> None:
    """Divide what is positive, multiply what is negative, for tokens of prompt and answer; Keskar et al. 2019.

    A prompt may hold ids that the model reads and never says: those have no logit.
    """
    entries = [
        (index, token_id, sequence.params.repetition_penalty)
        for index, sequence in enumerate(sequences)
        if sequence.params.repetition_penalty != 1.0
        for token_id in set(sequence.token_ids)
        if token_id < logits.shape[-1]
    ]
    if entries:
        indices, token_ids, penalties = _columns(entries, logits)
        values = logits[indices, token_ids]
        # In bounds, so that a tiny or huge penalty is not taken for a model that computes what is no number.
        penalised = torch.where(values > 0, values / penalties, values * penalties)
        logits[indices, token_ids] = penalised.clamp_(-FARTHEST, FARTHEST)


def add_penalties_and_bias(logits: torch.Tensor, sequences: SequenceOf[Sequence]) -> None:
    """Subtract presence and frequency penalties, for tokens of the answer alone, and add logit_bias."""
    entries: list[Entry] = []
    for index, sequence in enumerate(sequences):
        params = sequence.params
        entries += [(index, token_id, bias) for token_id, bias in params.logit_bias]
        if params.counts_tokens:
            entries += [
                (index, token_id, -params.presence_penalty - count * params.frequency_penalty)
                for token_id, count in sequence.output_counts.items()
            ]
    if entries:
        indices, token_ids, values = _columns(entries, logits)
        logits.index_put_((indices, token_ids), values, accumulate=True)


def forbid_early_ends(logits: torch.Tensor, sequences: SequenceOf[Sequence], eos_token_ids: SequenceOf[int]) -> None:
    """No end before min_tokens."""
    entries = [
        (index, token_id, float("-inf"))
        for index, sequence in enumerate(sequences)
        if sequence.num_output_tokens < sequence.params.min_tokens
        for token_id in (*eos_token_ids, *sequence.params.stop_token_ids)
        if token_id < logits.shape[-1]
    ]
    if entries:
        indices, token_ids, values = _columns(entries, logits)
        logits[indices, token_ids] = values


def forbid_unreadable(logits: torch.Tensor, num_input_ids: int | None) -> None:
    """No id from `num_input_ids` on, which the model could not be given next: an output may have more than an input."""
    if num_input_ids is not None and num_input_ids < logits.shape[-1]:
        logits[:, num_input_ids:] = float("-inf")


def _columns(entries: SequenceOf[Entry], like: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    indices, token_ids, values = zip(*entries, strict=True)
    return (
        to_device(indices, torch.long, like.device),
        to_device(token_ids, torch.long, like.device),
        to_device(values, like.dtype, like.device),
    )
