"""Chooses the next token of every row. Vectorised; a row that needs nothing special costs nothing special."""

from __future__ import annotations

from collections.abc import Callable, Sequence as SequenceOf
from dataclasses import dataclass

import torch

from myserve_ui.core.logprobs import TokenLogprob
from myserve_ui.core.sampling_params import SamplingParams
from myserve_ui.engine.device_copies import to_device
from myserve_ui.engine.grammars.masks import RowMasks, forbid_tokens
from myserve_ui.engine.sampling.adjustments import adjust_logits
from myserve_ui.engine.sampling.logprobs import token_logprobs
from myserve_ui.engine.sampling.ranked_draw import draw_any, draw_from_nucleus, draw_ranked, find_best
from myserve_ui.engine.sequence import Sequence

Draw = Callable[[torch.Tensor, SequenceOf[SamplingParams], SequenceOf[float]], torch.Tensor]
"""Logits [rows, vocab] divided by the temperature, and a uniform number for each row -> a token for each: [rows]."""


@dataclass(frozen=True, slots=True)
class Sampled:
    """What one step chose, in the order of its sequences."""

    token_ids: list[int | None]
    """None for a row whose logits are not numbers."""
    logprobs: dict[int, TokenLogprob]
    """By row, for the rows that asked."""


class Sampler:
    """Greedy choice for all rows at once, then a draw for the rows that ask for one.

    A row's draw is one uniform number from its sequence's own generator, looked up in the row's cumulative
    distribution: what a sequence draws depends on nothing but its seed and its logits.
    """

    def __init__(self, eos_token_ids: frozenset[int], *, num_input_ids: int | None = None) -> None:
        """No id from `num_input_ids` on is chosen: an output may have rows that the embedding lacks."""
        self._eos_token_ids = sorted(eos_token_ids)
        self._num_input_ids = num_input_ids

    @torch.inference_mode()
    def sample(self, logits: torch.Tensor, sequences: SequenceOf[Sequence], masks: RowMasks | None = None) -> Sampled:
        """Choose a token for each row of `logits` [num_seqs, vocab], if `masks` allow it; changes the logits."""
        if not sequences:
            return Sampled([], {})
        asking = [row for row, sequence in enumerate(sequences) if sequence.params.logprobs is not None]
        # a copy: log-probabilities are the model's own, before adjustments
        raw = logits[to_device(asking, torch.long, logits.device)] if asking else None
        adjust_logits(logits, sequences, self._eos_token_ids)
        if self._num_input_ids is not None and self._num_input_ids < logits.shape[-1]:
            logits[:, self._num_input_ids :] = float("-inf")
        if masks is not None:
            forbid_tokens(logits, masks)
        token_ids = self._choose(logits, sequences)
        if raw is None:
            return Sampled(token_ids, {})
        counts = [sequences[row].params.logprobs or 0 for row in asking]
        reported = token_logprobs(raw, [token_ids[row] or 0 for row in asking], counts)
        return Sampled(token_ids, dict(zip(asking, reported, strict=True)))

    def _choose(self, logits: torch.Tensor, sequences: SequenceOf[Sequence]) -> list[int | None]:
        best, token_ids = find_best(logits)
        for draw, rows in self._rows_that_draw(sequences, logits).items():
            drawing = [sequences[row] for row in rows]
            are_all = len(rows) == len(sequences)  # then nothing is copied
            index = slice(None) if are_all else to_device(rows, torch.long, logits.device)
            params = [sequence.params for sequence in drawing]
            token_ids[index] = draw(_tempered(logits[index], drawing), params, _uniforms(drawing))
        packed = torch.where(torch.isfinite(best), token_ids, -1).tolist()  # one transfer from the device
        return [None if token_id < 0 else token_id for token_id in packed]

    def _rows_that_draw(self, sequences: SequenceOf[Sequence], logits: torch.Tensor) -> dict[Draw, list[int]]:
        """Rows by the way they draw: from every token, or one of the ways to leave some out.

        The way a row takes depends on its own parameters alone, or neighbours would change its draws.
        """
        ways: dict[Draw, list[int]] = {}
        for row, sequence in enumerate(sequences):
            params = sequence.params
            if params.is_greedy:
                continue
            has_top_k = 1 <= (params.top_k or 0) < logits.shape[-1]
            if params.top_p == 1.0 and not params.min_p and not has_top_k:
                draw: Draw = draw_any
            else:
                draw = draw_ranked if has_top_k or logits.device.type != "cpu" else draw_from_nucleus
            ways.setdefault(draw, []).append(row)
        return ways


def _tempered(logits: torch.Tensor, sequences: SequenceOf[Sequence]) -> torch.Tensor:
    temperatures = [sequence.params.temperature or 1.0 for sequence in sequences]
    return logits / to_device(temperatures, torch.float32, logits.device)[:, None]


def _uniforms(sequences: SequenceOf[Sequence]) -> list[float]:
    return [sequence.uniform() for sequence in sequences]
