"""What a small step does with rows of float32 between its products, each in one pass over numbers in the cache."""

from __future__ import annotations

import math

import numpy as np

from myserve_ui.core.compiled import compiled, compiled_beside_others

TILE, BLOCK = 16, 64
"""Tokens of a prompt that attend together, and keys that they read together: 16 KiB of heads of 64 numbers."""
LOWEST, HIGHEST = -87.0, 89.0
"""From the one on e to the power of x is a normal float32; at the other it is more than any."""


@compiled
def exp_of(x: np.float32) -> np.float32:
    """e to the power of `x`, within 2 units of the last place; no less than at LOWEST, and infinity from 88.4 on.

    `2^n e^r` with `n` the whole number next to `x / ln 2`; for `e^r` the polynomial of Cephes' expf (S. Moshier), and
    ln 2 in two parts as there. Written out so that a loop over it runs in vector registers.
    """
    x = np.float32(HIGHEST) if x > np.float32(HIGHEST) else x
    x = np.float32(LOWEST) if x < np.float32(LOWEST) else x
    n = np.floor(x * np.float32(1.44269504) + np.float32(0.5))
    r = x - n * np.float32(0.693359375) + n * np.float32(2.12194440e-4)
    power = np.float32(1.9875691500e-4)
    power = power * r + np.float32(1.3981999507e-3)
    power = power * r + np.float32(8.3334519073e-3)
    power = power * r + np.float32(4.1665795894e-2)
    power = power * r + np.float32(1.6666665459e-1)
    power = power * r + np.float32(5.0000001201e-1)
    power = power * r * r + r + np.float32(1.0)
    # 2^n by its bits; those of n = 128 are infinity's.
    return power * np.int32((np.int32(n) + np.int32(127)) << np.int32(23)).view(np.float32)  # type: ignore[no-any-return]


@compiled
def _norm_factor(numbers: np.ndarray, floor: np.float32) -> np.float32:
    total = floor
    for i in range(numbers.size):
        total += numbers[i] * numbers[i]
    return np.float32(1.0) / math.sqrt(total)


@compiled
def norm_rows(hidden: np.ndarray, weight: np.ndarray, floor: np.float32) -> np.ndarray:
    """`x weight / sqrt(sum(x^2) + floor)` of each row, [rows, size], as a new array."""
    rows, size = hidden.shape
    out = np.empty_like(hidden)
    for row in range(rows):
        factor = _norm_factor(hidden[row], floor)
        for i in range(size):
            out[row, i] = hidden[row, i] * factor * weight[i]
    return out


@compiled
def add_and_norm_rows(hidden: np.ndarray, residual: np.ndarray, weight: np.ndarray, floor: np.float32) -> np.ndarray:
    """The norm of `hidden + residual`, which `hidden` becomes."""
    rows, size = hidden.shape
    for row in range(rows):
        for i in range(size):
            hidden[row, i] += residual[row, i]
    return norm_rows(hidden, weight, floor)


@compiled
def norm_heads(heads: np.ndarray, first: int, last: int, weight: np.ndarray, floor: np.float32) -> None:
    """The norm of each head from `first` to before `last` of `heads` [rows, heads, head_dim], in place."""
    rows, _, size = heads.shape
    for row in range(rows):
        for head in range(first, last):
            factor = _norm_factor(heads[row, head], floor)
            for i in range(size):
                heads[row, head, i] *= factor * weight[i]


@compiled
def rotate_rows(heads: np.ndarray, rotation: np.ndarray, count: int) -> None:
    """Turn the first `count` of `heads` [rows, heads, head_dim], pair by pair, by `rotation` [rows, head_dim / 2]."""
    for row in range(heads.shape[0]):
        for head in range(count):
            for i in range(rotation.shape[1]):
                turn = rotation[row, i]
                first, second = heads[row, head, 2 * i], heads[row, head, 2 * i + 1]
                heads[row, head, 2 * i] = first * turn.real - second * turn.imag
                heads[row, head, 2 * i + 1] = first * turn.imag + second * turn.real


@compiled
def gate_rows(gate_up: np.ndarray) -> np.ndarray:
    """`silu(gate) up` of rows that hold a gate and, behind it, as much of up."""
    rows, size = gate_up.shape[0], gate_up.shape[1] // 2
    out = np.empty((rows, size), np.float32)
    for row in range(rows):
        gates, ups = gate_up[row, :size], gate_up[row, size:]
        for i in range(size):
            out[row, i] = gates[i] / (np.float32(1.0) + exp_of(-gates[i])) * ups[i]
    return out


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


def attend_written_rows(
    heads: np.ndarray, cached: tuple[np.ndarray, np.ndarray], places: np.ndarray, style: tuple[float, int]
) -> np.ndarray:
    """Attention of new tokens whose keys and values are in `cached`, those two: [tokens, heads * dim].

    Arguments as for `write_rows`; tokens of one slot follow each other by position. `style` has the factor of the
    scores and how many tokens are seen, the new one included.

    What comes out for a token depends on its numbers and its position alone, to the last bit: not on the tokens beside
    it, nor on which of those before it came in the same call.
    """
    dim = heads.shape[2]
    return _attend(heads, cached, places, style, ((True,) * (dim // 4), (True,) * (dim % 4)))


@compiled_beside_others
def _attend(
    heads: np.ndarray,
    cached: tuple[np.ndarray, np.ndarray],
    places: np.ndarray,
    style: tuple[float, int],
    numbers: Numbers,
) -> np.ndarray:
    tokens, dim, kv_heads = heads.shape[0], heads.shape[2], cached[0].shape[1]
    num_heads = heads.shape[1] - 2 * kv_heads
    group = num_heads // kv_heads
    out = np.zeros((tokens, num_heads, dim), np.float32)
    first = 0
    while first < tokens:
        last = _end_of_tile(places, first)
        slot, positions = places[first, 0], places[first:last, 1]
        for kv_head in range(kv_heads):
            seen = cached[0][slot, kv_head], cached[1][slot, kv_head]
            _attend_tile(
                (heads[first:last], out[first:last]), (kv_head * group, group), seen, (positions, style), numbers
            )
        first = last
    return out.reshape(tokens, num_heads * dim)


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
        for row in range(tokens * group):
            token, head = row // group, first + row % group
            low, high = max(block, positions[token] + 1 - window), min(block + BLOCK, positions[token] + 1)
            if low < high:
                _score(queries[token, head], keys[low:high].reshape(-1), scale, weights[row, low:high], numbers)
    for row in range(tokens * group):
        position = positions[row // group]
        _normalize(weights[row, max(0, position + 1 - window) : position + 1])
    for block in range(start, end, BLOCK):
        for row in range(tokens * group):
            token, head = row // group, first + row % group
            low, high = max(block, positions[token] + 1 - window), min(block + BLOCK, positions[token] + 1)
            if low < high:
                _gather(weights[row, low:high], values[low:high].reshape(-1), out[token, head], numbers)


@compiled
def _score(query: np.ndarray, keys: np.ndarray, scale: np.float32, scores: np.ndarray, numbers: Numbers) -> None:
    """Products of `query` [dim] with keys that lie end to end, scaled; four at once, so that each load serves more."""
    dim = 4 * len(numbers[0]) + len(numbers[1])
    for at in range(0, scores.size - 3, 4):
        a = b = c = d = np.float32(0.0)
        four = keys[at * dim : (at + 4) * dim]
        for i in range(dim):
            a += query[i] * four[i]
            b += query[i] * four[dim + i]
            c += query[i] * four[2 * dim + i]
            d += query[i] * four[3 * dim + i]
        scores[at], scores[at + 1], scores[at + 2], scores[at + 3] = a * scale, b * scale, c * scale, d * scale
    for at in range(scores.size // 4 * 4, scores.size):
        a, key = np.float32(0.0), keys[at * dim : (at + 1) * dim]
        for i in range(dim):
            a += query[i] * key[i]
        scores[at] = a * scale


@compiled
def _normalize(scores: np.ndarray) -> None:
    """The softmax of one row, in place."""
    highest = scores[0]
    for at in range(scores.size):
        highest = max(highest, scores[at])
    total = np.float32(0.0)
    for at in range(scores.size):
        scores[at] = exp_of(scores[at] - highest)
        total += scores[at]
    share = np.float32(1.0) / total
    for at in range(scores.size):
        scores[at] *= share


@compiled
def _gather(weights: np.ndarray, values: np.ndarray, out: np.ndarray, numbers: Numbers) -> None:
    """Add values that lie end to end, weighed, to `out` [dim]; four at once."""
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
