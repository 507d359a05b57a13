"""Takes the likeliest token of each row, or draws one from the part of its distribution that a request leaves.

A row's draw is one uniform number from its sequence's own generator, looked up in the row's cumulative distribution:
what a sequence draws depends on nothing but its seed and its logits.

Sorting the whole vocabulary takes most of a step. On a CPU a loop finds what top_p and min_p leave without it. Else the
likeliest tokens are ranked first, which almost always are all that is left; only a row that may need more of them is
sorted whole. All ways leave the same tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence as SequenceOf

import numpy as np
import torch

from myserve_ui.core.sampling_params import ResolvedSampling
from myserve_ui.engine.device_copies import to_device
from myserve_ui.engine.sequence import Sequence
from myserve_ui.kernels.nucleus_loops import PIECE, draw_from_nuclei

CANDIDATES = (256, 2048)
"""Tokens that are ranked at first, and where these do not settle a row."""

PIECES = (PIECE, 4)
"""Neighbouring tokens of which only the likeliest is looked at first: where it saves much, and then of what is left."""

BLOCK = 128
"""Probabilities that are added up before one of the sums is chosen."""


Draw = Callable[[torch.Tensor, SequenceOf[ResolvedSampling], SequenceOf[float]], torch.Tensor]
"""Logits [rows, vocab] divided by the temperature, and a uniform number in [0, 1) a row -> a token a row: [rows].

Rows do not depend on each other.
"""


def draw_tokens(logits: torch.Tensor, sequences: SequenceOf[Sequence]) -> list[int | None]:
    """A token of each row of `logits` [num_seqs, vocab]; None where they are not numbers."""
    best, token_ids = find_best(logits)
    for draw, rows in _rows_by_draw(sequences, logits).items():
        drawing = [sequences[row] for row in rows]
        are_all = len(rows) == len(sequences)  # then nothing is copied
        index = slice(None) if are_all else to_device(rows, torch.long, logits.device)
        params = [sequence.params for sequence in drawing]
        tempered = logits[index] / _column([each.temperature for each in params], logits)
        token_ids[index] = draw(tempered, params, [sequence.uniform() for sequence in drawing])
    packed = torch.where(torch.isfinite(best), token_ids, -1).tolist()  # one transfer from the device
    return [None if token_id < 0 else token_id for token_id in packed]


def _rows_by_draw(sequences: SequenceOf[Sequence], logits: torch.Tensor) -> dict[Draw, list[int]]:
    """Rows that draw, by how: it depends on a row's own parameters alone, or neighbours would change its draws."""
    ways: dict[Draw, list[int]] = {}
    for row, sequence in enumerate(sequences):
        if not sequence.params.is_greedy:
            ways.setdefault(_choose_draw(sequence.params, logits), []).append(row)
    return ways


def _choose_draw(params: ResolvedSampling, logits: torch.Tensor) -> Draw:
    """From every token, or one of the ways to leave some out."""
    if 1 <= params.top_k < logits.shape[-1]:
        return draw_ranked
    if params.top_p == 1.0 and not params.min_p:
        return draw_any
    return draw_from_nucleus if logits.device.type == "cpu" else draw_ranked


def draw_any(logits: torch.Tensor, params: SequenceOf[ResolvedSampling], uniforms: SequenceOf[float]) -> torch.Tensor:
    """From all tokens."""
    return pick(torch.softmax(logits, dim=-1), uniforms)


def draw_ranked(
    logits: torch.Tensor, params: SequenceOf[ResolvedSampling], uniforms: SequenceOf[float]
) -> torch.Tensor:
    """From what top_k, top_p and min_p leave, the likeliest tokens first."""
    token_ids = torch.empty(logits.shape[0], dtype=torch.long, device=logits.device)
    left = list(range(logits.shape[0]))
    for count in (*CANDIDATES, logits.shape[-1]):
        rows = logits if len(left) == logits.shape[0] else logits[left]
        drawn, is_settled = _draw_among(rows, [params[row] for row in left], [uniforms[row] for row in left], count)
        token_ids[left] = drawn
        if not (left := [row for row, settled in zip(left, is_settled, strict=True) if not settled]):
            break
    return token_ids


def draw_from_nucleus(
    logits: torch.Tensor, params: SequenceOf[ResolvedSampling], uniforms: SequenceOf[float]
) -> torch.Tensor:
    """On a CPU, for rows without top_k: from the same tokens as `draw_ranked`, but looked up in their own order.

    -1 for a row whose probabilities are not numbers.
    """
    probabilities = torch.softmax(logits, dim=-1)
    whole = logits.shape[-1] // PIECE * PIECE
    peaks = probabilities[:, :whole].unflatten(-1, (-1, PIECE)).amax(-1)
    cuts = [(uniform, p.top_p, p.min_p) for uniform, p in zip(uniforms, params, strict=True)]
    return torch.from_numpy(draw_from_nuclei(probabilities.numpy(), peaks.numpy(), np.array(cuts, np.float64)))


def _draw_among(
    logits: torch.Tensor, params: SequenceOf[ResolvedSampling], uniforms: SequenceOf[float], count: int
) -> tuple[torch.Tensor, list[bool]]:
    """A token for each row from its `count` likeliest, and whether more of them could change it."""
    vocab_size = logits.shape[-1]
    values, order = _likeliest(logits, min(count, vocab_size))
    probabilities = torch.softmax(logits, dim=-1).gather(-1, order)  # [rows, count]
    cut = cut_ranks(probabilities, params, vocab_size)
    token_ids = order.gather(-1, pick(probabilities.masked_fill(cut, 0.0), uniforms)[:, None])[:, 0]
    if count >= vocab_size:
        return token_ids, [True] * len(params)
    goes_on = (~cut & (values <= values[:, -1:])).any(-1).tolist()  # a tie with the last one is kept
    needs_more = [going or count < p.top_k < vocab_size for going, p in zip(goes_on, params, strict=True)]
    return token_ids, [not more for more in needs_more]


def _likeliest(logits: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The largest values of each row and their tokens, [rows, count] each; of equal ones the first token first."""
    if count == logits.shape[-1]:
        return logits.sort(dim=-1, descending=True, stable=True)
    values, order = _top(logits, count)
    if not (values[:, 1:] == values[:, :-1]).any():
        return values, order
    order, by_token = order.sort(dim=-1)
    values, by_value = values.gather(-1, by_token).sort(dim=-1, descending=True, stable=True)
    return values, order.gather(-1, by_value)


def find_best(logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """As `max` over each row of `logits` [rows, vocab], the first of equals, and several times as quick on a CPU."""
    if logits.device.type != "cpu" or logits.shape[-1] % PIECES[0]:
        return logits.max(dim=-1)
    pieces = logits.unflatten(-1, (-1, PIECES[0]))
    best, piece = pieces.amax(-1).max(dim=-1)
    return best, piece * PIECES[0] + pieces[torch.arange(len(piece), device=piece.device), piece].argmax(-1)


def _top(logits: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """As `topk`, in another order: the `count` pieces of a row with the largest maxima hold its `count` largest values.

    What lies in another piece is no larger than its maximum, and so than `count` maxima.
    """
    rows, size = logits.shape
    for piece in PIECES:
        if size % piece == 0 and size > 2 * count * piece:
            pieces = logits.reshape(-1, piece)
            chosen = pieces.amax(-1).view(rows, -1).topk(count, dim=-1, sorted=False).indices  # [rows, count]
            first = torch.arange(0, len(pieces), size // piece, device=logits.device)[:, None]
            values, order = _top(pieces.index_select(0, (chosen + first).flatten()).view(rows, -1), count)
            return values, chosen.gather(-1, order // piece) * piece + order % piece
    return logits.topk(count, dim=-1)


def cut_ranks(probabilities: torch.Tensor, params: SequenceOf[ResolvedSampling], vocab_size: int) -> torch.Tensor:
    """True for ranks that top_k, top_p or min_p leave out; the likeliest token always stays.

    `probabilities` [rows, ranks] fall along each row and are those of the likeliest tokens of `vocab_size`. top_p
    looks at what top_k left, renormalised, as the reference implementations do.
    """
    num_ranks = probabilities.shape[-1]
    top_k = _column([p.top_k or vocab_size for p in params], probabilities)
    cut = torch.arange(num_ranks, device=probabilities.device) >= top_k
    kept = probabilities.masked_fill(cut, 0.0)
    before = kept.cumsum(-1) - kept  # probability of all likelier tokens
    total = torch.where(top_k <= num_ranks, kept.sum(-1, keepdim=True), 1.0)
    cut |= before >= _column([p.top_p for p in params], probabilities) * total
    cut |= probabilities < _column([p.min_p for p in params], probabilities) * probabilities[:, :1]
    cut[:, 0] = False
    return cut


def pick(weights: torch.Tensor, uniforms: SequenceOf[float]) -> torch.Tensor:
    """The first index of each row whose cumulative weight passes the row's uniform share of the total: [rows].

    Blocks are added up first, then the chosen one is looked into: a running sum over a vocabulary is slow in float64,
    and wrong in float32.
    """
    exact = torch.float32 if weights.device.type == "mps" else torch.float64  # mps has no float64
    missing = -weights.shape[-1] % BLOCK
    padded = torch.nn.functional.pad(weights, (0, missing)) if missing else weights
    blocks = padded.unflatten(-1, (-1, BLOCK))
    sums = blocks.sum(-1, dtype=exact).cumsum(-1)
    target = to_device(list(uniforms), exact, weights.device)[:, None] * sums[:, -1:]
    block = _first_beyond(sums, target)
    start = torch.where(block > 0, sums.gather(-1, (block - 1).clamp_min(0)), 0.0)
    inside = blocks.gather(1, block[:, :, None].expand(-1, -1, BLOCK))[:, 0].cumsum(-1, dtype=exact)
    return (block * BLOCK + _first_beyond(inside, target - start))[:, 0]


def _first_beyond(cumulative: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Where `cumulative` [rows, steps] first passes `target` [rows, 1]; if rounding hides that, its last rise."""
    last_rise = (cumulative < cumulative[:, -1:]).sum(-1, keepdim=True)
    return torch.minimum(torch.searchsorted(cumulative, target, right=True), last_rise)


def _column(values: SequenceOf[float], like: torch.Tensor) -> torch.Tensor:
    return to_device(values, torch.float32, like.device)[:, None]
