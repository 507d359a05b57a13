"""Chooses the next token of every row. Vectorised; a row that needs nothing special costs nothing special."""

from __future__ import annotations

from collections.abc import Sequence as SequenceOf

import torch

from myserve_ui.engine.sequence import Sequence


class Sampler:
    """Greedy choice for all rows at once, then a draw for the rows that ask for one.

    A row's draw is one uniform number from its sequence's own generator, looked up in the row's cumulative
    distribution: what a sequence draws depends on nothing but its seed and its logits.
    """

    def __init__(self, eos_token_ids: frozenset[int]) -> None:
        self._eos_token_ids = sorted(eos_token_ids)

    @torch.inference_mode()
    def sample(self, logits: torch.Tensor, sequences: SequenceOf[Sequence]) -> list[int | None]:
        """Ids chosen from `logits` [num_seqs, vocab], in the order of `sequences`; None for a row of NaN."""
        if not sequences:
            return []
        self._forbid_early_end(logits, sequences)
        best, token_ids = logits.max(dim=-1)
        drawn = [row for row, sequence in enumerate(sequences) if not sequence.params.is_greedy]
        if drawn:
            rows = torch.tensor(drawn, device=logits.device)
            token_ids[rows] = self._draw(logits[rows], [sequences[row] for row in drawn])
        finite = torch.isfinite(best)
        packed = torch.where(finite, token_ids, -1).tolist()  # one transfer from the device
        return [None if token_id < 0 else token_id for token_id in packed]

    def _forbid_early_end(self, logits: torch.Tensor, sequences: SequenceOf[Sequence]) -> None:
        for row, sequence in enumerate(sequences):
            if sequence.num_output_tokens < sequence.params.min_tokens:
                ids = [*self._eos_token_ids, *sequence.params.stop_token_ids]
                logits[row, ids] = float("-inf")

    def _draw(self, logits: torch.Tensor, sequences: SequenceOf[Sequence]) -> torch.Tensor:
        params = [sequence.params for sequence in sequences]
        scaled = logits / _column([p.temperature or 1.0 for p in params], logits)
        uniform = [sequence.random.random() for sequence in sequences]
        if all(p.top_p == 1.0 and not p.min_p and (p.top_k or 0) < 1 for p in params):
            return _pick(torch.softmax(scaled, dim=-1), uniform)
        ranked, order = scaled.sort(dim=-1, descending=True, stable=True)
        probabilities = torch.softmax(ranked, dim=-1)  # [num_drawn, vocab], likeliest first
        probabilities = probabilities.masked_fill_(self._cut(probabilities, sequences), 0.0)
        return order.gather(-1, _pick(probabilities, uniform)[:, None])[:, 0]

    def _cut(self, probabilities: torch.Tensor, sequences: SequenceOf[Sequence]) -> torch.Tensor:
        """True for ranks that top_k, top_p or min_p leave out; the likeliest token always stays.

        top_p looks at what top_k left, renormalised, as the reference implementations do.
        """
        params = [sequence.params for sequence in sequences]
        vocab_size = probabilities.shape[-1]
        ranks = torch.arange(vocab_size, device=probabilities.device)
        top_k = _column([p.top_k if (p.top_k or 0) >= 1 else vocab_size for p in params], probabilities)
        cut = ranks >= top_k
        kept = probabilities.masked_fill(cut, 0.0)
        before = kept.cumsum(-1) - kept  # probability of all likelier tokens
        cut |= before >= _column([p.top_p for p in params], probabilities) * kept.sum(-1, keepdim=True)
        cut |= probabilities < _column([p.min_p or 0.0 for p in params], probabilities) * probabilities[:, :1]
        cut[:, 0] = False
        return cut


def _column(values: SequenceOf[float | None], like: torch.Tensor) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float32, device=like.device)[:, None]


def _pick(probabilities: torch.Tensor, uniform: SequenceOf[float]) -> torch.Tensor:
    """The first index whose cumulative probability passes `uniform` times the whole: [rows]."""
    exact = torch.float32 if probabilities.device.type == "mps" else torch.float64  # mps has no float64
    cumulative = probabilities.cumsum(-1, dtype=exact)
    target = torch.tensor(uniform, dtype=exact, device=probabilities.device)[:, None] * cumulative[:, -1:]
    index = torch.searchsorted(cumulative, target, right=True)[:, 0]
    last_possible = probabilities.shape[-1] - 1 - (probabilities.flip(-1) > 0).int().argmax(-1)
    return torch.minimum(index, last_possible)
