"""What a small step does with rows of float32 between its products, each in one pass over numbers in the cache."""

from __future__ import annotations

import math

import numpy as np

from myserve_ui.core.compiled import compiled, compiled_beside_others

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


@compiled_beside_others
def attend_rows(
    heads: np.ndarray, keys: np.ndarray, values: np.ndarray, places: np.ndarray, style: tuple[float, int]
) -> np.ndarray:
    """Queries, keys and values of new tokens, `heads` [tokens, heads + 2 kv_heads, dim] -> [tokens, heads * dim].

    `keys` and `values` [slots, kv_heads, capacity, dim] receive the new ones. `places` [tokens, 2] has each token's
    slot and position; `style` the factor of the scores and how many tokens are seen, the new one included.
    """
    tokens, dim, kv_heads = heads.shape[0], heads.shape[2], keys.shape[1]
    num_heads = heads.shape[1] - 2 * kv_heads
    group = num_heads // kv_heads
    scale, window = np.float32(style[0]), style[1]
    out = np.zeros((tokens, num_heads, dim), np.float32)
    scores = np.empty((group, keys.shape[2]), np.float32)
    for token in range(tokens):
        slot, position = places[token]
        for kv_head in range(kv_heads):
            keys[slot, kv_head, position] = heads[token, num_heads + kv_head]
            values[slot, kv_head, position] = heads[token, num_heads + kv_heads + kv_head]
            first = max(0, position + 1 - window)
            seen_keys = keys[slot, kv_head, first : position + 1]
            seen_values = values[slot, kv_head, first : position + 1]
            own = slice(kv_head * group, (kv_head + 1) * group)
            _weigh(heads[token, own], seen_keys, scale, scores)
            _gather(scores, seen_values, out[token, own])
    return out.reshape(tokens, num_heads * dim)


@compiled
def _weigh(queries: np.ndarray, keys: np.ndarray, scale: np.float32, weights: np.ndarray) -> None:
    """The softmax of each query's products with `keys` [seen, dim], into `weights` [group, seen and more]."""
    seen, dim = keys.shape
    for at in range(seen):
        for q in range(queries.shape[0]):
            product = np.float32(0.0)
            for i in range(dim):
                product += queries[q, i] * keys[at, i]
            weights[q, at] = product * scale
    for q in range(queries.shape[0]):
        highest = weights[q, 0]
        for at in range(seen):
            highest = max(highest, weights[q, at])
        total = np.float32(0.0)
        for at in range(seen):
            weights[q, at] = exp_of(weights[q, at] - highest)
            total += weights[q, at]
        share = np.float32(1.0) / total
        for at in range(seen):
            weights[q, at] *= share


@compiled
def _gather(weights: np.ndarray, values: np.ndarray, out: np.ndarray) -> None:
    """Add `values` [seen, dim], weighed, to `out` [group, dim]."""
    for at in range(values.shape[0]):
        for q in range(out.shape[0]):
            weight = weights[q, at]
            for i in range(out.shape[1]):
                out[q, i] += weight * values[at, i]
