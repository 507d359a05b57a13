"""Chooses the next token of every sequence: adjustments, then draws, then log-probabilities."""

from __future__ import annotations

from collections.abc import Sequence as SequenceOf

import torch

from myserve_ui.engine.grammars.masks import GrammarMasks, forbid_tokens
from myserve_ui.engine.sampling.adjustments import (
    add_penalties_and_bias,
    forbid_early_ends,
    forbid_unreadable,
    penalise_repetition,
)
from myserve_ui.engine.sampling.draws import draw_tokens
from myserve_ui.engine.sampling.logprobs import copy_reporting, report_logprobs
from myserve_ui.engine.scheduler import Sampled
from myserve_ui.engine.sequence import Sequence


class Sampler:
    """The chain from logits to tokens, for one model: its end tokens, and how many ids it can read."""

    def __init__(self, eos_token_ids: frozenset[int], *, num_input_ids: int | None = None) -> None:
        self._eos_token_ids = sorted(eos_token_ids)
        self._num_input_ids = num_input_ids

    @torch.inference_mode()
    def sample(
        self, logits: torch.Tensor, sequences: SequenceOf[Sequence], masks: GrammarMasks | None = None
    ) -> Sampled:
        """Choose a token by each row of `logits` [num_seqs, vocab], if `masks` allow it; changes the logits."""
        if not sequences:
            return Sampled([], {})
        reporting, raw = copy_reporting(logits, sequences)  # log-probabilities are the model's own, before adjustments
        penalise_repetition(logits, sequences)
        add_penalties_and_bias(logits, sequences)
        forbid_early_ends(logits, sequences, self._eos_token_ids)
        forbid_unreadable(logits, self._num_input_ids)
        forbid_tokens(logits, masks)
        token_ids = draw_tokens(logits, sequences)
        return Sampled(token_ids, report_logprobs(raw, reporting, token_ids))
