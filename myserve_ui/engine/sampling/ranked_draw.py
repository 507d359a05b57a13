"""Draws a token from each row's distribution, or from the part of it that top_k, top_p and min_p leave.

Sorting the whole vocabulary takes most of a step. On a CPU a loop finds what top_p and min_p leave without it. Else the
likeliest tokens are ranked first, which almost always are all that is left; only a row that may need more of them is
sorted whole. All ways leave the same tokens.
"""

from __future__ import annotations

from collections.abc import Sequence as SequenceOf

import numpy as np
import torch

from myserve_ui.core.sampling_params import SamplingParams
from myserve_ui.engine.device_copies import to_device
from myserve_ui.kernels.nucleus_loops import PIECE, draw_from_nuclei

CANDIDATES = (256, 2048)
"""Tokens that are ranked at first, and where these do not settle a row."""

PIECES = (PIECE, 4)
"""Neighbouring tokens of which only the likeliest is looked at first: where it saves much, and then of what is left."""

BLOCK = 128
"""Probabilities that are added up before one of the sums is chosen."""


def draw_ranked(logits: torch.Tensor, params: SequenceOf[SamplingParams], uniforms: SequenceOf[float]) -> torch.Tensor:
    """One token for each row of `logits` [rows, vocab], already divided by the temperature: [rows].

    `uniforms` are numbers in [0, 1), one a row. Rows do not depend on each other.
    """
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
    logits: torch.Tensor, params: SequenceOf[SamplingParams], uniforms: SequenceOf[float]
) -> torch.Tensor:
    """As `draw_ranked`, on a CPU, for rows without top_k: from the same tokens, but looked up in their own order.

    -1 for a row whose probabilities are not numbers.
    """
    probabilities = torch.softmax(logits, dim=-1)
    whole = logits.shape[-1] // PIECE * PIECE
    peaks = probabilities[:, :whole].unflatten(-1, (-1, PIECE)).amax(-1)
    wishes = [(uniform, p.top_p, p.min_p or 0.0) for uniform, p in zip(uniforms, params, strict=True)]
    return torch.from_numpy(draw_from_nuclei(probabilities.numpy(), peaks.numpy(), np.array(wishes, np.float64)))


def _draw_among(
    logits: torch.Tensor, params: SequenceOf[SamplingParams], uniforms: SequenceOf[float], count: int
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
    needs_more = [going or count < (p.top_k or 0) < vocab_size for going, p in zip(goes_on, params, strict=True)]
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


def draw_any(logits: torch.Tensor, params: SequenceOf[SamplingParams], uniforms: SequenceOf[float]) -> torch.Tensor:
    """As `draw_ranked`, for rows that leave nothing out."""
    return pick(torch.softmax(logits, dim=-1), uniforms)


def cut_ranks(probabilities: torch.Tensor, params: SequenceOf[SamplingParams], vocab_size: int) -> torch.Tensor:
    """True for ranks that top_k, top_p or min_p leave out; the likeliest token always stays.

    `probabilities` [rows, ranks] fall along each row and are those of the likeliest tokens of `vocab_size`. top_p
    looks at what top_k left, renormalised, as the reference implementations do.
    """
    num_ranks = probabilities.shape[-1]
    top_k = _column([p.top_k if (p.top_k or 0) >= 1 else vocab_size for p in params], probabilities)
    cut = torch.arange(num_ranks, device=probabilities.device) >= top_k
    kept = probabilities.masked_fill(cut, 0.0)
    before = kept.cumsum(-1) - kept  # probability of all likelier tokens
    total = torch.where(top_k <= num_ranks, kept.sum(-1, keepdim=True), 1.0)
    cut |= before >= _column([p.top_p for p in params], probabilities) * total
    cut |= probabilities < _column([p.min_p or 0.0 for p in params], probabilities) * probabilities[:, :1]
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


def _column(values: SequenceOf[float | None], like: torch.Tensor) -> torch.Tensor:
    numbers = [0.0 if value is None else value for value in values]
    return to_device(numbers, torch.float32, like.device)[:, None]
