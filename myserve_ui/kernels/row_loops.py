"""What a small step does with rows of float32 between its products, each in one pass over numbers in the cache.

Its attention is the engine's: a RowBatch.
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

from myserve_ui.kernels.compiled import compiled, exp_of

UNBOUNDED = 2**62
"""A window as wide as any context."""


class RowBatch(Protocol):
    """The keyword `row_batch` of the model's forward, in steps for which loops over rows are quickest.

    Only where the cache is in float32 on a CPU; a layer that does not know it goes through the attention interface.
    """

    def attend_rows(self, layer: int, heads: np.ndarray, num_kv_heads: int, style: tuple[float, int]) -> np.ndarray:
        """Write keys and values and attend: [tokens, heads + 2 kv_heads, head_dim] -> [tokens, heads * head_dim].

        `style` is the factor of the scores, and how many tokens are seen, the new one included.
        """
        ...


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
