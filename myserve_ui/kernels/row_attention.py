"""Attention of rows of float32 in compiled loops, by as many threads as come to help: every token in one order of sums.

What comes out for a token depends on its numbers and its position alone, to the last bit: not on the tokens beside it,
nor on which of those before it came in the same call, nor on the thread.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numba import carray  # type: ignore[attr-defined]

from myserve_ui.kernels.compiled import as_pointer, claim_next, compiled, compiled_for_c, exp_of
from myserve_ui.kernels.threads import run_by_team

TILE, BLOCK = 16, 64
"""Tokens of a prompt that attend together, and keys that they read together: 16 KiB of heads of 64 numbers."""

WORK_SIZE = 13

Numbers = tuple[tuple[bool, ...], tuple[bool, ...]]
"""How many numbers a head has, as the lengths of two tuples: fours, and what is left.

A length is part of a type, so loops are compiled for it, unrolled, and twice as quick as those that ask how long to
run.
"""


@compiled
def write_rows(heads: np.ndarray, keys: np.ndarray, values: np.ndarray, places: np.ndarray) -> None:
    """Put the keys and values of new tokens, behind the queries in `heads`, into their places.

    `heads` [tokens, heads + 2 kv_heads, dim]; `keys` and `values` [slots, kv_heads, capacity, dim]; `places` [tokens,
    2] has each token's slot and position.
    """
    kv_heads = keys.shape[1]
    num_heads = heads.shape[1] - 2 * kv_heads
    for token in range(len(places)):
        slot, position = places[token]
        for kv_head in range(kv_heads):
            keys[slot, kv_head, position] = heads[token, num_heads + kv_head]
            values[slot, kv_head, position] = heads[token, num_heads + kv_heads + kv_head]


def attend_rows(
    heads: np.ndarray,
    cached: tuple[np.ndarray, np.ndarray],
    places: np.ndarray,
    style: tuple[float, int],
    *,
    num_threads: int = 1,
) -> np.ndarray:
    """Attention of new tokens, whose keys and values are written, over those of their slots: [tokens, heads * dim].

    `cached` are the keys and values, and shapes are those of `write_rows`; tokens of one slot follow each other by
    position. `style` has the factor of the scores, above 0, and how many tokens are seen, the new one included.
    """
    keys = cached[0]
    assert keys.flags.c_contiguous and cached[1].flags.c_contiguous
    num_heads, dim = heads.shape[1] - 2 * keys.shape[1], heads.shape[2]
    attended = np.zeros((len(heads), num_heads * dim), np.float32)
    work = _lay_out((np.ascontiguousarray(heads), attended, np.ascontiguousarray(places)), cached, style)
    run_by_team(_loop_for(dim).address, work.ctypes.data, num_threads)
    return attended


@compiled
def _lay_out(
    rows: tuple[np.ndarray, np.ndarray, np.ndarray], cached: tuple[np.ndarray, np.ndarray], style: tuple[float, int]
) -> np.ndarray:
    """Addresses and sizes, for a function that takes a pointer to them."""
    (heads, attended, places), (keys, values) = rows, cached
    work = np.empty(WORK_SIZE, np.int64)
    work[0], work[1], work[2] = heads.ctypes.data, attended.ctypes.data, places.ctypes.data
    work[3], work[4] = keys.ctypes.data, values.ctypes.data
    work[5], work[6] = len(heads), heads.shape[1] - 2 * keys.shape[1]
    work[7], work[8], work[9] = keys.shape[0], keys.shape[1], keys.shape[2]
    work[10], work[11] = np.float32(style[0]).view(np.int32), min(style[1], keys.shape[2])
    work[12] = 0  # what is claimed
    return work


@functools.cache
def _loop_for(dim: int) -> Any:
    """The loop for heads of `dim` numbers, with its `address`. It is called with what `_lay_out` gives."""
    numbers: Numbers = ((True,) * (dim // 4), (True,) * (dim % 4))

    def attend(pointer: Any) -> None:
        work: Any = carray(pointer, WORK_SIZE, np.int64)
        tokens, num_heads, slots, kv_heads, capacity = work[5], work[6], work[7], work[8], work[9]
        heads = carray(as_pointer(work[0]), (tokens, num_heads + 2 * kv_heads, dim), np.float32)
        out = carray(as_pointer(work[1]), (tokens, num_heads, dim), np.float32)
        places = carray(as_pointer(work[2]), (tokens, 2), np.int64)
        keys = carray(as_pointer(work[3]), (slots, kv_heads, capacity, dim), np.float32)
        values = carray(as_pointer(work[4]), (slots, kv_heads, capacity, dim), np.float32)
        style: Any = np.int32(work[10]).view(np.float32), work[11]
        _attend((heads, out, places), (keys, values), style, work[12:], numbers)

    return compiled_for_c(attend)


@compiled
def _attend(
    rows: tuple[np.ndarray, np.ndarray, np.ndarray],
    cached: tuple[np.ndarray, np.ndarray],
    style: tuple[float, int],
    claimed: np.ndarray,
    numbers: Numbers,
) -> None:
    """A tile and a head of keys at a time, as long as there are some that no other thread has claimed."""
    heads, out, places = rows
    tokens, kv_heads = len(places), cached[0].shape[1]
    group = out.shape[1] // kv_heads
    first, passed, mine = 0, 0, claim_next(claimed)
    while first < tokens:
        last = _end_of_tile(places, first)
        slot, positions = places[first, 0], places[first:last, 1]
        while mine < passed + kv_heads:
            kv_head = mine - passed
            seen = cached[0][slot, kv_head], cached[1][slot, kv_head]
            _attend_tile(
                (heads[first:last], out[first:last]), (kv_head * group, group), seen, (positions, style), numbers
            )
            mine = claim_next(claimed)
        first, passed = last, passed + kv_heads


@compiled
def _end_of_tile(places: np.ndarray, first: int) -> int:
    """Where the tokens end that follow token `first` in its slot, TILE at most."""
    last = first + 1
    while last < len(places) and last < first + TILE and places[last, 0] == places[first, 0]:
        last += 1
    return last


@compiled
def _attend_tile(
    rows: tuple[np.ndarray, np.ndarray],
    own: tuple[int, int],
    seen: tuple[np.ndarray, np.ndarray],
    reach: tuple[np.ndarray, tuple[float, int]],
    numbers: Numbers,
) -> None:
    """Some heads of neighbouring tokens of a slot: `rows`, [tokens, heads, dim] twice, are queries and results.

    `own` has the first head and how many; `seen` their keys and values [capacity, dim], which are read a BLOCK at a
    time for all tokens while they are in the processor's cache; `reach` the tokens' positions, and the style.
    """
    (queries, out), (first, group), (keys, values) = rows, own, seen
    positions, (factor, window) = reach
    tokens = len(positions)
    scale, end = np.float32(factor), positions[-1] + 1
    weights = np.empty((tokens * group, end), np.float32)
    start = max(0, positions[0] + 1 - window) // BLOCK * BLOCK
    for block in range(start, end, BLOCK):
        for token in range(tokens):
            low, high = max(block, positions[token] + 1 - window), min(block + BLOCK, positions[token] + 1)
            if low < high:
                scores = weights[token * group : (token + 1) * group, low:high]
                _score(queries[token, first : first + group], keys[low:high].reshape(-1), scores, numbers)
    for row in range(tokens * group):
        position = positions[row // group]
        _normalize(weights[row, max(0, position + 1 - window) : position + 1], scale)
    for block in range(start, end, BLOCK):
        for token in range(tokens):
            low, high = max(block, positions[token] + 1 - window), min(block + BLOCK, positions[token] + 1)
            if low < high:
                shares = weights[token * group : (token + 1) * group, low:high]
                _gather(shares, values[low:high].reshape(-1), out[token, first : first + group], numbers)


@compiled
def _score(queries: np.ndarray, keys: np.ndarray, scores: np.ndarray, numbers: Numbers) -> None:
    """Products of `queries` [heads, dim] with keys that lie end to end: `scores` [heads, keys].

    Three heads and four keys at once, so that each load serves more.
    """
    threes = len(queries) // 3 * 3
    for head in range(0, threes, 3):
        _score_three(queries[head : head + 3], keys, scores[head : head + 3], numbers)
    for head in range(threes, len(queries)):
        _score_one(queries[head], keys, scores[head], numbers)


@compiled
def _score_three(queries: np.ndarray, keys: np.ndarray, scores: np.ndarray, numbers: Numbers) -> None:
    dim = 4 * len(numbers[0]) + len(numbers[1])
    fours = scores.shape[1] // 4 * 4
    for at in range(0, fours, 4):
        a0 = b0 = c0 = d0 = a1 = b1 = c1 = d1 = a2 = b2 = c2 = d2 = np.float32(0.0)
        four = keys[at * dim : (at + 4) * dim]
        for i in range(dim):
            a, b, c, d = four[i], four[dim + i], four[2 * dim + i], four[3 * dim + i]
            q0, q1, q2 = queries[0, i], queries[1, i], queries[2, i]
            a0, b0, c0, d0 = a0 + q0 * a, b0 + q0 * b, c0 + q0 * c, d0 + q0 * d
            a1, b1, c1, d1 = a1 + q1 * a, b1 + q1 * b, c1 + q1 * c, d1 + q1 * d
            a2, b2, c2, d2 = a2 + q2 * a, b2 + q2 * b, c2 + q2 * c, d2 + q2 * d
        scores[0, at], scores[0, at + 1], scores[0, at + 2], scores[0, at + 3] = a0, b0, c0, d0
        scores[1, at], scores[1, at + 1], scores[1, at + 2], scores[1, at + 3] = a1, b1, c1, d1
        scores[2, at], scores[2, at + 1], scores[2, at + 2], scores[2, at + 3] = a2, b2, c2, d2
    for head in range(3):
        _score_one(queries[head], keys[fours * dim :], scores[head, fours:], numbers)


@compiled
def _score_one(query: np.ndarray, keys: np.ndarray, scores: np.ndarray, numbers: Numbers) -> None:
    dim = 4 * len(numbers[0]) + len(numbers[1])
    for at in range(0, scores.size - 3, 4):
        a = b = c = d = np.float32(0.0)
        four = keys[at * dim : (at + 4) * dim]
        for i in range(dim):
            a += query[i] * four[i]
            b += query[i] * four[dim + i]
            c += query[i] * four[2 * dim + i]
            d += query[i] * four[3 * dim + i]
        scores[at], scores[at + 1], scores[at + 2], scores[at + 3] = a, b, c, d
    for at in range(scores.size // 4 * 4, scores.size):
        a, key = np.float32(0.0), keys[at * dim : (at + 1) * dim]
        for i in range(dim):
            a += query[i] * key[i]
        scores[at] = a


@compiled
def _normalize(scores: np.ndarray, scale: np.float32) -> None:
    """The softmax of one row times `scale`, which is above 0, in place."""
    highest = _highest(scores)
    total = np.float32(0.0)
    for at in range(scores.size):
        scores[at] = exp_of((scores[at] - highest) * scale)
        total += scores[at]
    share = np.float32(1.0) / total
    for at in range(scores.size):
        scores[at] *= share


@compiled
def _highest(scores: np.ndarray) -> np.float32:
    """The highest, or some other where one is none; by four at once, since each waits for the one before."""
    a = b = c = d = scores[0]
    for at in range(0, scores.size - 3, 4):
        a, b = max(a, scores[at]), max(b, scores[at + 1])
        c, d = max(c, scores[at + 2]), max(d, scores[at + 3])
    for at in range(scores.size // 4 * 4, scores.size):
        a = max(a, scores[at])
    return max(max(a, b), max(c, d))


@compiled
def _gather(weights: np.ndarray, values: np.ndarray, out: np.ndarray, numbers: Numbers) -> None:
    """Add values that lie end to end, by `weights` [heads, values], to `out` [heads, dim]; as `_score` does."""
    threes = len(weights) // 3 * 3
    for head in range(0, threes, 3):
        _gather_three(weights[head : head + 3], values, out[head : head + 3], numbers)
    for head in range(threes, len(weights)):
        _gather_one(weights[head], values, out[head], numbers)


@compiled
def _gather_three(weights: np.ndarray, values: np.ndarray, out: np.ndarray, numbers: Numbers) -> None:
    dim = 4 * len(numbers[0]) + len(numbers[1])
    fours = weights.shape[1] // 4 * 4
    for at in range(0, fours, 4):
        a0, b0, c0, d0 = weights[0, at], weights[0, at + 1], weights[0, at + 2], weights[0, at + 3]
        a1, b1, c1, d1 = weights[1, at], weights[1, at + 1], weights[1, at + 2], weights[1, at + 3]
        a2, b2, c2, d2 = weights[2, at], weights[2, at + 1], weights[2, at + 2], weights[2, at + 3]
        four = values[at * dim : (at + 4) * dim]
        for i in range(dim):
            a, b, c, d = four[i], four[dim + i], four[2 * dim + i], four[3 * dim + i]
            out[0, i] += (a0 * a + b0 * b) + (c0 * c + d0 * d)
            out[1, i] += (a1 * a + b1 * b) + (c1 * c + d1 * d)
            out[2, i] += (a2 * a + b2 * b) + (c2 * c + d2 * d)
    for head in range(3):
        _gather_one(weights[head, fours:], values[fours * dim :], out[head], numbers)


@compiled
def _gather_one(weights: np.ndarray, values: np.ndarray, out: np.ndarray, numbers: Numbers) -> None:
    dim = 4 * len(numbers[0]) + len(numbers[1])
    for at in range(0, weights.size - 3, 4):
        a, b, c, d = weights[at], weights[at + 1], weights[at + 2], weights[at + 3]
        four = values[at * dim : (at + 4) * dim]
        for i in range(dim):
            out[i] += (a * four[i] + b * four[dim + i]) + (c * four[2 * dim + i] + d * four[3 * dim + i])
    for at in range(weights.size // 4 * 4, weights.size):
        weight, value = weights[at], values[at * dim : (at + 1) * dim]
        for i in range(dim):
            out[i] += weight * value[i]
