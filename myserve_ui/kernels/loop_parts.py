"""What loops of several files are made of: an exponential for vector registers, and a count that threads share."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from myserve_ui.kernels.compiled import compiled

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


@intrinsic
def _claim_next(_context: Any, counter: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        return builder.atomic_rmw("add", array.data, context.get_constant(types.int64, 1), "monotonic")

    return types.int64(counter), generate


@intrinsic
def _as_pointer(_context: Any, _address: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.voidptr(types.int64), generate


@compiled
def claim_next(counter: np.ndarray) -> int:
    """The number that `counter` [1] of int64 begins with, one higher then; no two threads are given the same."""
    claim: Any = _claim_next
    return claim(counter)  # type: ignore[no-any-return]


@compiled
def as_pointer(address: int) -> Any:
    """The pointer to what lies at `address`."""
    point: Any = _as_pointer
    return point(address)
