"""Draws from what top_p and min_p leave of a row of probabilities, without sorting it."""

from __future__ import annotations

import numpy as np

from myserve_ui.kernels.compiled import compiled, compiled_beside_others

PIECE = 32
"""Neighbouring tokens of which the likeliest tells whether any of them is looked at."""
SMALLEST = 2.0**-126
"""Of a likelihood that counts: the smallest normal float32. What a grammar forbids has none at all."""
BUCKET_SHIFT = 18
"""Probabilities fall into buckets by their leading bits: 32 buckets from one power of two to the next."""
NUM_BUCKETS = (0x40000000 >> BUCKET_SHIFT) + 1
"""For all below 2."""


@compiled_beside_others
def draw_from_nuclei(probabilities: np.ndarray, peaks: np.ndarray, cuts: np.ndarray) -> np.ndarray:
    """A token for each row of `probabilities` [rows, vocab], of those that top_p and min_p leave: [rows]; -1 of NaN.

    `peaks` [rows, vocab // PIECE] are the largest of each PIECE tokens. `cuts` [rows, 3] are a uniform number in
    [0, 1), top_p, and min_p.

    Nothing is sorted whole. Tokens less likely than `(1 - top_p) / vocab` make up less than `1 - top_p` together, so
    top_p needs none of them; of the rest, only the bucket in which the sum reaches top_p.
    """
    tokens, found = np.empty(probabilities.shape[0], np.int64), np.empty(probabilities.shape[1], np.int64)
    for row in range(tokens.size):
        uniform, top_p, min_p = cuts[row]
        top_p = np.inf if top_p >= 1.0 else top_p  # the sum may reach 1 by rounding
        likely = _likely_tokens(probabilities[row], peaks[row], top_p, min_p, found)
        if likely.size == 0:
            tokens[row] = -1
            continue
        masses = probabilities[row][likely]
        border, spare, kept = _find_border(masses, top_p)
        tokens[row] = likely[_pick(masses, border, spare, uniform * kept)]
    return tokens


@compiled
def _likely_tokens(
    probabilities: np.ndarray, peaks: np.ndarray, top_p: float, min_p: float, found: np.ndarray
) -> np.ndarray:
    """The tokens that may be kept, in their order: one at least of numbers. They are written into `found` [vocab]."""
    highest = np.float32(0.0)
    for peak in peaks:
        highest = peak if peak > highest else highest
    for token in range(peaks.size * PIECE, probabilities.size):
        highest = probabilities[token] if probabilities[token] > highest else highest
    by_sum, by_share = (1.0 - top_p) / probabilities.size, min_p * highest
    wanted = np.float32(by_sum if by_sum > by_share else by_share)
    least = max(wanted if wanted < highest else highest, np.float32(SMALLEST))
    count = 0
    for piece in range(peaks.size + 1):
        if piece == peaks.size or peaks[piece] >= least:
            end = probabilities.size if piece == peaks.size else (piece + 1) * PIECE
            for token in range(piece * PIECE, end):
                if probabilities[token] >= least:
                    found[count] = token
                    count += 1
    return found[:count]


@compiled
def _find_border(masses: np.ndarray, top_p: float) -> tuple[np.float32, int, float]:
    """The least that is kept of `masses`, how many of that size, and the sum of all that is kept.

    The largest are kept, up to the one with which the sum reaches top_p.
    """
    buckets = np.zeros(NUM_BUCKETS, np.float64)
    for i in range(masses.size):
        buckets[_bucket_of(masses[i])] += masses[i]
    kept, bucket = np.float64(0.0), NUM_BUCKETS - 1
    while bucket > 0 and kept + buckets[bucket] < top_p:
        kept += buckets[bucket]
        bucket -= 1
    inside = np.empty(masses.size, np.float32)
    count = 0
    for i in range(masses.size):
        if _bucket_of(masses[i]) == bucket:
            inside[count] = masses[i]
            count += 1
    if count == 0:  # the sum stays below top_p
        return np.float32(0.0), masses.size, kept
    falling = np.sort(inside[:count])[::-1]
    count = 0
    while count < falling.size and (count == 0 or kept < top_p):
        kept += falling[count]
        count += 1
    border = falling[count - 1]
    spare = 0
    for i in range(count):
        spare += int(falling[i] == border)
    return border, spare, kept


@compiled
def _bucket_of(mass: np.float32) -> np.int32:
    return np.float32(mass).view(np.int32) >> BUCKET_SHIFT


@compiled
def _pick(masses: np.ndarray, border: np.float32, spare: int, target: float) -> int:
    """The first kept one at which the running sum passes `target`; if rounding hides it, the last kept one."""
    passed, last = np.float64(0.0), 0
    for i in range(masses.size):
        if masses[i] > border or (masses[i] == border and spare > 0):
            spare -= int(masses[i] == border)
            passed += masses[i]
            last = i
            if passed > target:
                return last
    return last
